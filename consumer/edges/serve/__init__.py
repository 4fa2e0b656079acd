"""Listen on local ports: health and metrics of the daemon, and the trial receiver.

Requests come in; answers go out.
Requests to endpoints belong to ``edges.http``.
"""
