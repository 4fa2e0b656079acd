"""Give every command the same options, output and questions.

Options come in; tables, JSON lines and exit codes go out.
A command of its own does not belong here.
"""
