"""``make demo``: Leveret seen from outside, with six endpoints and five tenants, on a broker of its own.

It stands beside the product and not in it: what it shows has to come from what every user can see (commands,
events over AMQP, the daemon's log and metrics, the endpoints' own records, the parked queue), and a daemon on
a server has no use for it. So nothing in ``consumer`` imports it, and it is not installed.

Data flow: stage starts broker, endpoints and daemon -> traffic publishes -> evidence is read ->
account.Book -> view on a terminal, or lines; at the end the account, from the endpoints' records and the
parked queue, decides the exit code.
"""
