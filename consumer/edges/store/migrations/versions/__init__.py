"""Migrations in the order of their numbers. A released migration is never changed."""
