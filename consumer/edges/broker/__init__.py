"""Connect AMQP to the flow's ports: two connections, confirms, windows, reconnects.

wire/frames.py          frames of producers -> values, even of hostile ones
connection/connect.py   a list of URLs -> a plain connection
publisher.py            Publication -> confirmed, or an error of Leveret
consume/windows.py      queues -> Incoming, with a prefetch each
consume/gate.py         frames of a channel -> messages, as they are read
consume/acks.py         settled messages -> few ack frames
edge.py                 both connections kept alive, topology declared, queue sizes read
"""
