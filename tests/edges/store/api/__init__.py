"""The rows of the HTTP API."""
