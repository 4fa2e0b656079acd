"""AMQP messages <-> the flow's ports: two connections, confirms, windows, reconnects.

frames.py     what producers write -> values, whatever it is
connect.py    a URL list -> a plain connection
publisher.py  Publication -> confirmed, or an error of ours
windows.py    queues -> Incoming, with a prefetch each
acks.py       settled messages -> few ack frames
edge.py       both halves kept alive for ever, topology declared, queue sizes read
"""
