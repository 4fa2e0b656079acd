"""Decide from the answer of an endpoint whether and when to try again.

Outcomes and retry policies come in; verdicts with their waits go out.
The state of an endpoint, such as its breaker, belongs to ``core.endpoint``.
"""
