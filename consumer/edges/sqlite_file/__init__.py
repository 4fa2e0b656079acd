"""Find the store's SQLite file, open it, explain its errors, and read the index of parked entries from it.

This package imports no SQLAlchemy, whose import takes 0.3 s of CPU time: a third of a second that an operator
would wait for each listing. :mod:`consumer.edges.store` reads and writes all tables, also on PostgreSQL.
"""
