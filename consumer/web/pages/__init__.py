"""The pages for operators and customers, rendered on the server.

Requests come in; calls of ``consumer.web.services`` and HTML go out.
No decision belongs here.
"""
