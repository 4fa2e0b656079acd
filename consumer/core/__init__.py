"""Pure functions and values that make every decision about events, webhooks, endpoints and tenants.

Values, times and random numbers come in; verdicts, new states and bytes go out.
This package never awaits, reads a clock or logs, and it has no access to a broker, a socket or a database.
"""
