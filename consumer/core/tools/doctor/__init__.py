"""Judge the surroundings of a worker: what `leveret doctor` found becomes findings, each with its remedy.

Facts about broker, store, clock, network and subscriptions come in; findings go out.
The looks themselves belong to ``consumer.edges.doctor``.
"""
