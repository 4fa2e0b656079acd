"""Serve the HTTP API and the pages for operators: ``leveret serve``, or inside ``leveret run``.

HTTP requests come in; calls of the same steps and store transactions as the command line's go out.
No rule of delivery belongs here, and nothing here is called by a delivery.
"""
