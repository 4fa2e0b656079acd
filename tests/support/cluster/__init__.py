"""A cluster of three RabbitMQ nodes on this machine, each in a network of its own. Needs root and ``ip``.

Data flow: network.lay_out (namespaces, cables) -> node.Node (one server) -> cluster.Cluster (all three).
"""
