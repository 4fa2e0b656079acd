"""Look at the surroundings of a worker for `leveret doctor`: broker, store, clock, network, endpoints.

Settings come in; findings of :mod:`consumer.core.tools.doctor` go out. No queue and no message is left
behind, nothing is migrated, and no webhook is sent. A look that fails becomes a finding.
"""
