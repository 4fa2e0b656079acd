"""Keep the history of deliveries: rows in batches, beside the deliveries; read by the command line.

Rows come in through ``consumer.ports.History``; batches go to ``history.db`` by way of a child process, or to
PostgreSQL. Which rows are made belongs to ``consumer.flow.base.history_notes``.
"""
