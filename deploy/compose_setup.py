"""Make the files that docker-compose.yml needs: passwords, the broker's definitions, a sample.

The script runs as the service ``setup`` before all others: ``python compose_setup.py FOLDER``. Each folder
below is a volume that one service reads. The script draws passwords once and keeps them; it writes all other
files anew, so that a new version brings its own topology.

    rabbitmq/definitions.json   users with hashed passwords, rights, exchanges, queues, bindings
    rabbitmq/admin-password     of the user admin, for the management page
    leveret/amqp-url            of the user leveret
    publisher/amqp-url          of the user publisher, who may only publish events
    grafana/admin-password      of Grafana's admin; viewers need no login
    sample/webhook-secrets      one per line, for leveret listen --secret-file
    sample/subscriptions.yaml   for leveret subscriptions apply
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import yaml

from consumer.settings import Settings, load_settings
from topology.export import definitions
from topology.permissions import permissions
from topology.plan import build_plan

VHOST = "/"
HOST = "rabbitmq:5672"
SAMPLE = {"acme": ("healthy", "flaky"), "globex": ("healthy", "dead")}
"""Tenant -> behaviour of its endpoints: paths that ``leveret listen`` knows."""
MAX_AGE_S = {"dead": 30}
"""Short ages, so that the sample soon shows parked entries: an open breaker alone spends no attempts."""


def main(folder: Path) -> None:
    """Write every file below *folder*; in the container its folders are volumes and exist already."""
    settings = load_settings()
    login = {name: _kept(folder / name / "password") for name in ("leveret", "publisher")}
    login["admin"] = _kept(folder / "rabbitmq" / "admin-password")
    _kept(folder / "grafana" / "admin-password")
    for name in ("leveret", "publisher"):
        _write(folder / name / "amqp-url", f"amqp://{name}:{login[name]}@{HOST}\n")
    document = broker_definitions(settings, login)
    _write(folder / "rabbitmq" / "definitions.json", json.dumps(document, indent=1) + "\n")
    _write_sample(folder / "sample")


def broker_definitions(settings: Settings, login: dict[str, str]) -> dict[str, Any]:
    """Return the definitions that RabbitMQ loads at its start.

    Args:
        settings: Settings of the daemon; the queues follow from them.
        login: Password of each user: ``leveret``, ``publisher`` and ``admin``.

    Source: RabbitMQ "Schema Definition Export and Import": a node that loads definitions makes neither user
    nor virtual host by itself.
    """
    spec = settings.topology_spec()
    needed = permissions(spec, declare=True)
    events = f"^{re.escape(spec.names.events)}$"
    rights = {
        "leveret": (needed.configure, needed.write, needed.read),
        "publisher": ("^$", events, "^$"),
        "admin": (".*", ".*", ".*"),
    }
    tags = {"leveret": ["monitoring"], "publisher": [], "admin": ["administrator"]}
    users = [
        {
            "name": name,
            "password_hash": password_hash(password),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": tags[name],
        }
        for name, password in login.items()
    ]
    granted = [
        {"user": name, "vhost": VHOST, "configure": configure, "write": write, "read": read}
        for name, (configure, write, read) in rights.items()
        if name in login
    ]
    own = {"users": users, "vhosts": [{"name": VHOST}], "permissions": granted}
    return own | definitions(build_plan(spec), VHOST)


def password_hash(password: str, salt: bytes | None = None) -> str:
    """Hash a password for RabbitMQ: base64 of a salt of 4 bytes and of the SHA-256 of salt and password.

    Source: RabbitMQ "Credentials and Passwords", computing password hash.
    """
    salt = secrets.token_bytes(4) if salt is None else salt
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _write_sample(folder: Path) -> None:
    pairs = [(tenant, behaviour) for tenant, behaviours in SAMPLE.items() for behaviour in behaviours]
    path = folder / "webhook-secrets"
    if not path.exists() or len(path.read_text("utf-8").split()) != len(pairs):
        drawn = ["whsec_" + base64.b64encode(secrets.token_bytes(24)).decode() for _ in pairs]
        _write(path, "".join(f"{secret}\n" for secret in drawn))
    own = zip(pairs, path.read_text("utf-8").split(), strict=True)
    entries = [_sample(tenant, behaviour, secret) for (tenant, behaviour), secret in own]
    _write(folder / "subscriptions.yaml", yaml.safe_dump({"subscriptions": entries}, sort_keys=False))


def _sample(tenant: str, behaviour: str, secret: str) -> dict[str, object]:
    """Return one entry of the sample's subscriptions file."""
    entry: dict[str, object] = {
        "tenant": tenant,
        "name": f"sample-{behaviour}",
        "url": f"http://127.0.0.1:9000/{behaviour}/{tenant}",
        "events": ["order.*"],
        "secrets": [secret],
    }
    if behaviour in MAX_AGE_S:
        entry["retry"] = {"max_age_s": MAX_AGE_S[behaviour]}
    return entry


def _kept(path: Path) -> str:
    """Return the password in *path*; draw it in the first run."""
    if not path.exists():
        _write(path, secrets.token_urlsafe(24))
    return path.read_text("utf-8").strip()


def _write(path: Path, text: str) -> None:
    """Replace *path*. Only the users of the container that mounts its volume can read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
