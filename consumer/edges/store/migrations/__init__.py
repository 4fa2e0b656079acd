"""The steps that make the store's tables, run by Alembic. One file per step in ``versions``."""
