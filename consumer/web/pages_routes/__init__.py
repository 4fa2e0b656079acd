"""The routes of the pages: one module for each part of the site, each with a ``router``.

Requests of browsers come in; calls of ``consumer.web.services``, and views of ``consumer.web.pages``, go out.
No decision belongs here, and no HTML.
"""
