"""Wrap the process itself: clock, log, standard streams, limits, archive files.

Log records and entries come in; lines and files go out.
The life of the daemon belongs to ``consumer.daemon``.
"""
