"""The proofs of the house: attributes that are assigned from outside their class."""

from __future__ import annotations

import ast
from pathlib import Path

from bench.house.structure import PRODUCT, late, modules, parsed

OUTSIDE = """
class Tap:
    def __init__(self):
        self.is_open = False

def turn(tap):
    tap.is_open = True
"""
INSIDE = """
class Tap:
    def __init__(self):
        self.is_open = False

    def turn(self, other):
        self.is_open = other.is_open = True
"""


def test_objects_are_complete_when_they_are_built() -> None:
    """No attribute of a class is assigned from outside it."""
    assert late(parsed(modules(*PRODUCT))) == []


def test_an_assignment_from_outside_is_found() -> None:
    """One inside the class is right, even to another object of the class."""
    assert late({Path("tap.py"): ast.parse(OUTSIDE)}) == ["tap.py:7 tap.is_open"]
    assert late({Path("tap.py"): ast.parse(INSIDE)}) == []
