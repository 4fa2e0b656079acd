"""AMQP messages <-> the flow's ports: two connections, confirms, windows, reconnects.

connect.py    a URL list -> a plain connection
publisher.py  Publication -> confirmed, or an error of ours
windows.py    queues -> Incoming, with a prefetch each
edge.py       both halves kept alive for ever, topology declared, queue sizes read
"""
