"""Our signatures, judged by code that shares nothing with ours. Run by ``tests/interop/run.sh``.

Not collected by a plain ``pytest``: it needs node with the npm package, and openssl.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from consumer.core.webhook.signing import Ed25519Key, HmacKey, SigningKey, format_secret, parse_secret, sign

HERE: Final = Path(__file__).parent
VECTORS: list[dict[str, Any]] = json.loads((HERE.parent / "data/signatures.json").read_text())
#: DER head of an ed25519 public key. Source: RFC 8410, section 4.
ED25519_DER_HEAD: Final = bytes.fromhex("302a300506032b6570032100")
TEXTS: Final = (
    "",
    "{}",
    '{"name":"Zoë 😀"}',
    '{"n":1e400,"big":12345678901234567890123}',
    "\u2028\ufeff\x00",
    "x" * 300_000,
)


@dataclass(frozen=True)
class Case:
    """One signed webhook and a key that it must verify with."""

    key: SigningKey
    event_id: str
    timestamp: int
    body: bytes
    signature: str

    @property
    def content(self) -> bytes:
        """The signed bytes, written down a second time from the specification."""
        return b".".join([self.event_id.encode(), str(self.timestamp).encode(), self.body])


def hmac_cases() -> list[Case]:
    """Return webhooks signed now, with secrets of every allowed length, alone and in rotation."""
    rng = random.Random(7)
    cases = []
    for length in range(24, 65):
        key, old = HmacKey(rng.randbytes(length)), HmacKey(rng.randbytes(24))
        body = TEXTS[length % len(TEXTS)].encode()
        event_id, now = f"msg_{rng.getrandbits(64):x}", int(time.time())
        signature = sign([key, old], event_id, now, body)
        cases += [Case(k, event_id, now, body, signature) for k in (key, old)]
    return cases


def ed25519_cases() -> list[Case]:
    """Return webhooks signed by private keys, and vector C."""
    rng = random.Random(8)
    cases = []
    for text in TEXTS[1:]:
        key, body = Ed25519Key(rng.randbytes(32)), text.encode()
        cases.append(Case(key, "msg_1", 1674087231, body, sign([key], "msg_1", 1674087231, body)))
    vector = VECTORS[2]
    body, key_c = vector["body"].encode(), parse_secret(vector["secret"])
    signature = sign([key_c], vector["id"], vector["timestamp"], body)
    return [*cases, Case(key_c, vector["id"], vector["timestamp"], body, signature)]


def npm_verdicts(cases: list[Case]) -> list[str]:
    """Ask the npm verifier about each case."""
    asked = []
    for case in cases:
        assert isinstance(case.key, HmacKey)
        headers = {
            "webhook-id": case.event_id,
            "webhook-timestamp": str(case.timestamp),
            "webhook-signature": case.signature,
        }
        body = base64.b64encode(case.body).decode()
        asked.append({"secret": format_secret(case.key.secret), "headers": headers, "body": body})
    done = subprocess.run(
        ["node", str(HERE / "verify.mjs")],
        input=json.dumps(asked),
        cwd=os.environ["LEVERET_INTEROP"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    verdicts: list[str] = json.loads(done.stdout)
    return verdicts


def openssl_hmac(secret: bytes, content: bytes) -> bytes:
    """Return openssl's HMAC-SHA256."""
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{secret.hex()}", "-binary"]
    return subprocess.run(command, input=content, capture_output=True, check=True, timeout=30).stdout


def openssl_verifies(case: Case, content: bytes, folder: Path) -> bool:
    """Return whether openssl takes the first entry of the signature for *content*."""
    assert isinstance(case.key, Ed25519Key)
    version, _, signature = case.signature.partition(",")
    assert version == "v1a"
    (folder / "key.der").write_bytes(ED25519_DER_HEAD + case.key.public)
    (folder / "signature").write_bytes(base64.b64decode(signature))
    (folder / "content").write_bytes(content)
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey", "key.der"]
    command += ["-sigfile", "signature", "-in", "content"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=30).returncode == 0


def test_npm_verifier_accepts_every_webhook() -> None:
    """SW-07 to SW-09: secrets of 24 to 64 bytes, either key of a rotation, any text as body."""
    cases = hmac_cases()

    assert npm_verdicts(cases) == ["ok"] * 82


def test_npm_verifier_refuses_a_changed_body() -> None:
    """The check above can fail: one more byte is refused."""
    cases = [Case(c.key, c.event_id, c.timestamp, c.body + b"x", c.signature) for c in hmac_cases()]

    assert set(npm_verdicts(cases)) == {"No matching signature found"}


def test_openssl_computes_the_same_hmac() -> None:
    """SW-07: openssl's HMAC over the specified content is the first entry of the list."""
    vectors = [v for v in VECTORS if v["secret"].startswith("whsec_")]
    for v in vectors:
        key = parse_secret(v["secret"])
        assert isinstance(key, HmacKey)
        case = Case(key, v["id"], v["timestamp"], v["body"].encode(), v["signature"])
        expected = base64.b64encode(openssl_hmac(key.secret, case.content)).decode()

        assert sign([key], case.event_id, case.timestamp, case.body) == f"v1,{expected}"


@pytest.mark.parametrize("case", ed25519_cases(), ids=lambda case: f"{len(case.body)}-bytes")
def test_openssl_verifies_ed25519(case: Case, tmp_path: Path) -> None:
    """SW-07, SW-10: openssl verifies v1a with the public half, and refuses changed content."""
    assert openssl_verifies(case, case.content, tmp_path)
    assert not openssl_verifies(case, case.content + b"x", tmp_path)
