"""The values that a command and its source, a store or an API, pass to each other.

Fields of objects come in from either source; the command prints them. No call belongs here.
"""
