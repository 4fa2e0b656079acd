// Publish two events: the headers as text, then as byte arrays. Arguments: the broker's URL.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	connection, err := amqp.Dial(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		log.Fatal(err)
	}
	publish(channel, "text", amqp.Table{"tenant": "acme", "region": "eu"})
	publish(channel, "bytes", amqp.Table{"tenant": []byte("acme"), "region": []byte("eu")})
}

func publish(channel *amqp.Channel, form string, headers amqp.Table) {
	message := amqp.Publishing{
		Headers:      headers,
		ContentType:  "application/json",
		DeliveryMode: amqp.Persistent,
		MessageId:    "go_" + form,
		Body:         []byte(fmt.Sprintf(`{"client":"go","form":"%s"}`, form)),
	}
	confirm, err := channel.PublishWithDeferredConfirm("leveret.events", "order.created", true, false, message)
	if err != nil {
		log.Fatal(err)
	}
	if confirmed, err := confirm.WaitContext(context.Background()); err != nil || !confirmed {
		log.Fatal("not confirmed: ", err)
	}
}
