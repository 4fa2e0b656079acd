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
FOREIGN = """
from pydantic import BaseModel
from wire import Span

class Field:
    description: str
    code: int

def describe(model: type[BaseModel], ours: Field):
    for name, field in model.model_fields.items():
        field.description = name
    span = Span(name="a")
    span.status.code = 1
    ours.code = 2
"""


def test_objects_are_complete_when_they_are_built() -> None:
    """No attribute of a class is assigned from outside it."""
    assert late(parsed(modules(*PRODUCT))) == []


def test_an_assignment_from_outside_is_found() -> None:
    """One inside the class is right, even to another object of the class."""
    assert late({Path("tap.py"): ast.parse(OUTSIDE)}) == ["tap.py:7 tap.is_open"]
    assert late({Path("tap.py"): ast.parse(INSIDE)}) == []


def test_objects_of_libraries_have_attributes_of_their_own() -> None:
    """A class of ours may have an attribute of the same name."""
    assert late({Path("wire.py"): ast.parse(FOREIGN)}) == ["wire.py:14 ours.code"]
