"""The parked queue: look, replay, purge, count, rebuild the index; a lock lets one command at a time work.

Filters and connections come in; entries and counts go out.
No rule for parking belongs here.
"""
