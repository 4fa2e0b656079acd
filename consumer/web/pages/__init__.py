"""Draw the pages for operators and customers: values in, HTML out.

Data flow: a route builds one view of :mod:`consumer.web.pages.views` -> :func:`render.render` -> HTML text.
Nothing here reads a store, a broker or a clock: every view contains its time and its numbers.
"""
