"""Decide: pure functions and values about events, webhooks, endpoints and tenants.

Values, times and random numbers come in; verdicts, new states and bytes go out.
Nothing here awaits, reads a clock, logs, or knows of a broker, a socket or a database.
"""
