"""The dashboard and the alert rules."""
