"""Ten troubles on the real product: the overview has to name the culprit, and the runbook to end the trouble.

Data flow: a trouble begins -> Prometheus -> queries of the overview, alerts -> Alertmanager -> commands of
the section of the runbook -> the trouble has ended. Judging faults of the surroundings (`leveret doctor`)
does not belong here.
"""
