"""Where the right values are kept that were computed outside the project."""

from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
