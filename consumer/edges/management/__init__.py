"""Query a broker's management API.

URLs and logins come in; a snapshot of its queues, rights and limits goes out.
Nothing on the way of an event belongs here: the management API may be absent.
"""
