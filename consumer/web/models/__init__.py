"""The JSON of the API: one module per resource.

Values of the services come in; checked JSON goes out, and the other way round.
No decision belongs here.
"""
