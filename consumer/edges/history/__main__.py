"""Run the child that writes the history: ``python -m consumer.edges.history <handle>``."""

from __future__ import annotations

from consumer.edges.history.writing_child import main

if __name__ == "__main__":
    main()
