"""Report each finished step: one log line and its metrics.

Facts come in as method calls; log lines and series go out, and nothing returns to the caller.
No decision belongs here.
"""
