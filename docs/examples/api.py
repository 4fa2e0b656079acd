"""Create a webhook of a customer, and print its secret; the API shows it this once."""

import os
from pathlib import Path

import httpx2

API = os.environ.get("LEVERET_API", "http://127.0.0.1:8090")
TOKEN = Path(os.environ.get("LEVERET_TOKEN_FILE", "token")).read_text().strip()

with httpx2.Client(base_url=API, headers={"Authorization": f"Bearer {TOKEN}"}) as api:
    answer = api.post(
        "/v1/tenants/acme/subscriptions",
        json={"name": "till", "url": "https://till.example/hook", "events": ["order.*"]},
    )
    if answer.is_error:
        problem = answer.json()
        raise SystemExit(f"{problem['field']}: {problem['detail']}; {problem['remedy']}")
    print(answer.json()["secret"])
