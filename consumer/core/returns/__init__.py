"""Judge whether rungs and due queues give back the messages that were put into them.

Marks on delivery messages go out, reports of their return come in, and the overdue queues come out. The
running object that publishes the marks and hears the reports is ``flow.returns``.
"""
