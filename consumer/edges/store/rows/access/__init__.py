"""Keep, as rows, those who may use the API and its pages: tokens, and browsers that are logged in.

Hashes of secrets and cookies come in; rows of the store go out.
Rights and the life time of a session are judged in ``consumer.web.access``.
"""
