"""Read and write small pieces of text: URLs, times, durations, ids.

Text comes in; a value or an error that names the fault goes out.
Knowledge about events, webhooks or endpoints does not belong here.
"""
