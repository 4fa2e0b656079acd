import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Map;

/** Publish two events: the headers as text, then as byte arrays. Arguments: the broker's URL. */
public class Plain {
    public static void main(String[] arguments) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(arguments[0]);
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.confirmSelect();
            publish(channel, "text", Map.of("tenant", "acme", "region", "eu"));
            publish(channel, "bytes", Map.of("tenant", "acme".getBytes(UTF_8), "region", "eu".getBytes(UTF_8)));
            channel.waitForConfirmsOrDie();
        }
    }

    private static void publish(Channel channel, String form, Map<String, Object> headers) throws Exception {
        var properties = new AMQP.BasicProperties.Builder()
                .headers(headers)
                .contentType("application/json")
                .deliveryMode(2)
                .messageId("java_" + form)
                .build();
        var body = "{\"client\":\"java\",\"form\":\"%s\"}".formatted(form);
        channel.basicPublish("leveret.events", "order.created", true, properties, body.getBytes(UTF_8));
    }
}
