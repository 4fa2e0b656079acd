"""The root of the repository, and the folder of expected values that were computed outside the project."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
