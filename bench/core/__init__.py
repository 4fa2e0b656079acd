"""One module per proof of the core; each has ``GOALS`` and ``prove(bench)``."""
