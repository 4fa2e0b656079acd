"""Make the smallest valid body of an operation, so that a request gets past the checks of its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEPTH = 8


def smallest_body(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Any:
    """Return a body that the schema of *operation* accepts; None if it takes no JSON."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = next((each.get("schema") for kind, each in content.items() if "json" in kind), None)
    return None if schema is None else smallest(document, schema)


def smallest(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value that *schema* accepts, with the required fields only."""
    if depth > DEPTH:
        return None
    if "$ref" in schema:
        return smallest(document, _resolved(document, schema["$ref"]), depth + 1)
    if "const" in schema:
        return schema["const"]
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return smallest(document, schema[name][0], depth + 1)
    return _of_type(document, schema, depth)


def _of_type(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            return {
                name: smallest(document, fields.get(name, {}), depth + 1)
                for name in schema.get("required", ())
            }
        case "array":
            items = schema.get("items", {})
            return [smallest(document, items, depth + 1) for _ in range(schema.get("minItems", 0))]
        case "string":
            return (
                "https://shop.example/x"
                if schema.get("format") == "uri"
                else "x" * schema.get("minLength", 1)
            )
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return None


def _resolved(document: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)
