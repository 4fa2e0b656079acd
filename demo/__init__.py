"""``make demo``: show Leveret from outside, with six endpoints and five tenants, on a private broker.

The demo is not part of the product. It shows only what every user can see: commands, events over AMQP, the
daemon's log and metrics, the endpoints' own records, the parked queue. A daemon on a server does not need it.
So no module of ``consumer`` imports it, and it is not installed.

Data flow: stage starts broker, endpoints and daemon -> traffic publishes -> evidence is read -> account.Book
-> view on a terminal, or lines. At the end the account decides the exit code, from the endpoints' records and
the parked queue.
"""
