"""Give every part of the flow its ports, its bounds and its one way to publish.

Publications and counters come in; confirms, rates and faults of this machine go out.
Decisions about a single event or endpoint do not belong here.
"""
