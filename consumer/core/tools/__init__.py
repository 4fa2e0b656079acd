"""Decisions that only the command line needs.

Metrics and paths come in; a status and the behaviour of a trial endpoint go out.
The daemon never imports this package.
"""
