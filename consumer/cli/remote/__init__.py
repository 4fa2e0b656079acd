"""Work over the HTTP API of ``leveret serve`` instead of with store and broker.

Options of the server come in; requests go out, and their answers come back as the values that the local
sources of the commands return. Output belongs to the commands, and no secret of store or broker is read.
"""
