"""Builders of messages, subscriptions and entries: values that tests start from."""
