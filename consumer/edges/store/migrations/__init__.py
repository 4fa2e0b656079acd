"""Migrations of the store's tables, run by Alembic. ``versions`` contains one file per migration."""
