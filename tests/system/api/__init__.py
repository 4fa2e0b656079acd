"""The HTTP API as a process of its own, beside a real daemon and broker."""
