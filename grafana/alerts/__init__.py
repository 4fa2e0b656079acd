"""The alert rules of this repository, with a firing and a silent case of each for promtool.

The rules themselves are in ``consumer/core/tools/alerts``. Cases and options come in; YAML files go out.
"""
