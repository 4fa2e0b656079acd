"""Judge one endpoint: may it be sent a request now, and is it failing, gone or allowed at all?

Outcomes, times and addresses come in; new states and reservations go out.
The running objects that keep these states belong to ``flow.endpoints``.
"""
