"""Publish an event over MQTT, confirmed (QoS 1). Arguments: port, user, password."""

import sys

import paho.mqtt.client as mqtt

port, user, password = sys.argv[1:]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="shop")
client.username_pw_set(user, password)
client.connect("127.0.0.1", int(port))
client.loop_start()
client.publish("acme/order/created", '{"client":"mqtt","form":"text"}', qos=1).wait_for_publish(30)
client.disconnect()
client.loop_stop()
