"""The OpenAPI document: checked in, complete, and nothing of it is loaded from elsewhere."""

from __future__ import annotations

from docs import generate
from tests.support.web import Api


def test_the_document_is_current() -> None:
    """`python -m docs.generate` writes it."""
    assert generate.OPENAPI.read_text() == generate.openapi_text(), "run `.venv/bin/python -m docs.generate`"


async def test_the_api_serves_its_document_and_no_foreign_page(api: Api) -> None:
    """There are no pages that load scripts from another site."""
    async with api.client() as client:
        document = (await client.get("/v1/openapi.json")).json()
        for path in ("/docs", "/redoc"):
            assert (await client.get(path)).status_code == 404

    assert document["openapi"].startswith("3.1")
    assert "ProblemDocument" in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "default" in operation["responses"], (method, path)
            assert operation["operationId"]
            assert operation.get("description"), (method, path)
