"""Carry out commands of operators on the broker: list, replay, purge, release, reload.

Commands come in; publications, counts and entries go out.
The daemon's own handling of events does not belong here.
"""
