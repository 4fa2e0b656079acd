"""When our own certificates end, by their files."""

from __future__ import annotations

import time
from pathlib import Path

from consumer.edges.process.certificates import api_certificate, broker_certificate, read_ends
from consumer.settings import load_settings
from tests.support.servers.certificates import Authority

DAY_S = 86_400


def test_the_first_end_in_each_file_counts(tmp_path: Path) -> None:
    """A chain is of use until its first end; a file that cannot be read is a fault and stops nothing."""
    authority, chain, broken = Authority(tmp_path), tmp_path / "api.pem", tmp_path / "broken.pem"
    chain.write_text(authority.pair("api.example", days=9).certificate + authority.pem)
    broken.write_text("no certificate")

    ends, faults = read_ends({"api": chain, "broker_client": broken, "other": tmp_path / "missing"})

    assert list(ends) == ["api"]
    assert 0 < ends["api"] - time.time() <= DAY_S
    assert faults.keys() == {"broker_client", "other"}


def test_comments_may_have_any_encoding(tmp_path: Path) -> None:
    """TLS takes such a file, so its end is known too."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes("# café\n".encode("latin-1") + Authority(tmp_path).pem.encode())

    ends, faults = read_ends({"api": bundle})

    assert (list(ends), faults) == (["api"], {})


def test_the_settings_name_them() -> None:
    """Without TLS of our own there is none, and a worker without an API shows none to callers."""
    assert broker_certificate(load_settings({})) == api_certificate(load_settings({})) == {}
    client = {"LEVERET_AMQP__CERT_FILE": "client.pem", "LEVERET_AMQP__KEY_FILE": "client.key"}
    assert broker_certificate(load_settings(client)) == {"broker_client": Path("client.pem")}
    server = {"LEVERET_API__TLS_CERTIFICATE": "api.pem", "LEVERET_API__TLS_KEY": "api.key"}
    assert api_certificate(load_settings(server)) == {}
    beside = server | {"LEVERET_API__LISTEN": "127.0.0.1:0"}
    assert api_certificate(load_settings(beside)) == {"api": Path("api.pem")}
