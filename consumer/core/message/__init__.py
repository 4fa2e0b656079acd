"""Define our own formats: delivery messages, parked entries, records and operational events.

Deliveries and parked reasons come in; headers and bodies go out, and the reverse.
The words of producers belong to ``core.event``; publishing belongs to ``flow.base``.
"""
