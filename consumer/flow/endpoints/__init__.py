"""Keep the state of every endpoint that this worker has met, and agree on it with other workers.

Requests for admission and outcomes come in; admissions, reservations and news for other workers go out.
The rules behind them belong to ``core.endpoint``.
"""
