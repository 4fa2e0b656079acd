"""Take the pictures of the pages from a real worker, ``leveret serve`` and Chromium: ``make screenshots``.

Data flow: customers and their last hour -> :mod:`bench.pictures.stage` (a running product) -> browser -> PNG.
"""
