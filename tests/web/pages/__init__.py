"""Tests of the pages for operators and customers."""
