"""``python -m consumer`` is the same as ``leveret``."""

from consumer.cli import main

main()
