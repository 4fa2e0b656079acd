"""Tests of endpoints and subscriptions over HTTP: state, steering, publishing, and the form of S0-4."""
