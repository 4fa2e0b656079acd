"""Define the steps of deliveries that the history keeps, and the questions that it answers.

Facts of the flow come in as values; rows without a place go out.
Nothing here writes or reads a row: that belongs to ``consumer.edges.history``.
"""
