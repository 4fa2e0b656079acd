"""Work on several objects in one request, as the commands of the command line do.

Calls of ``consumer.web.routes`` come in; one change of the store, or one pass over queues, goes out.
The steps themselves belong to the core and to ``consumer.edges.operate``.
"""
