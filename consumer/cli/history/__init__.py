"""Show the history of deliveries: ``leveret trace`` and ``leveret tail``.

Options come in; timelines, tables and JSON lines go out. Both commands read only; ``trace --live`` also looks
into the rungs.
"""
