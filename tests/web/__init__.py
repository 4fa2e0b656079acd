"""The HTTP API in this process, request by request."""
