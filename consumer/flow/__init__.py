"""Join the decisions of the core to one worker: take, match, deliver, settle.

Messages come in through ports; requests, publications and acks leave through ports.
Sockets, SQL and AMQP frames belong to ``consumer.edges``; rules without state belong to ``consumer.core``.
"""
