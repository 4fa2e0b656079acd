"""Tests of the command line, command by command."""
