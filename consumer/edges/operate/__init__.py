"""Do what operators ask of the broker: look, replay, purge, release, reload.

Commands come in; publications, counts and entries go out.
The daemon's own way of an event does not belong here.
"""
