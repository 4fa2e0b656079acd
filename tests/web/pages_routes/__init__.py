"""Tests of the routes of the pages."""
