"""The credentials of a subscription in the store: sealed with the signing secrets, in either database."""

from __future__ import annotations

import base64

from consumer.core.access import OAuth2Client
from tests.support.servers.certificates import Authority
from tests.support.stores import SHOP, Place, apply, by_id, shop

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OAUTH2 = {"token_url": "https://id.example/t", "client_id": "app", "client_secret": "s3cret-value"}


async def test_credentials_come_back_as_they_were(place: Place, authority: Authority) -> None:
    """Basic, Bearer, OAuth2 and a client key survive the way through the store."""
    pair = authority.pair("leveret")
    store = place.open(STORE__KEY=KEY)
    merged = await apply(
        store,
        shop(
            auth={"oauth2": OAUTH2},
            tls={"ca": authority.pem, "certificate": pair.certificate, "key": pair.key},
        ),
        shop(
            name="basic", url="https://b.example/", auth={"basic": {"username": "u", "password": "pw-hidden"}}
        ),
        shop(name="bearer", url="https://c.example/", auth={"bearer": "token-hidden"}),
        shop(name="plain", url="https://d.example/"),
    )

    again = place.open()
    kept = await again.entries()
    loaded = by_id(await again.load())

    assert {e.id: e.document() for e in kept} == {e.id: e.document() for e in merged.added}
    access = loaded[SHOP].access
    assert access is not None
    assert access.oauth2 == OAuth2Client(
        token_url="https://id.example/t", client_id="app", client_secret="s3cret-value"
    )
    assert access.tls is not None
    assert access.tls.key == pair.key


async def test_no_credential_is_in_clear(sql_place: Place, authority: Authority) -> None:
    """Fault 69: neither in the database file nor in the files beside it."""
    pair = authority.pair("leveret")
    store = sql_place.open(STORE__KEY=KEY)
    await apply(
        store,
        shop(auth={"oauth2": OAUTH2}, tls={"certificate": pair.certificate, "key": pair.key}),
        shop(
            name="basic", url="https://b.example/", auth={"basic": {"username": "u", "password": "pw-hidden"}}
        ),
        shop(name="bearer", url="https://c.example/", auth={"bearer": "token-hidden"}),
    )

    written = b"".join(path.read_bytes() for path in sql_place.home.rglob("*") if path.is_file())

    assert b"https://id.example/t" in written
    for secret in (b"s3cret-value", b"PRIVATE KEY", b"pw-hidden", b"token-hidden"):
        assert secret not in written


async def test_credentials_are_locked_and_come_back_with_the_key(place: Place) -> None:
    """Fault 69: without the key nothing is sent and nothing lost, even if the entry is changed."""
    await apply(place.open(STORE__KEY=KEY), shop(secrets=[SIGNING], auth={"bearer": "token-hidden"}))

    locked = place.open(STORE__KEY=OTHER)
    [entry] = await locked.entries()
    assert (entry.locked is not None, entry.secrets) == (True, ())
    assert entry.credentials() == {"auth.bearer": "***"}
    await locked.disable(SHOP, "410")
    [back] = await place.open(STORE__KEY=KEY).entries()

    assert back.locked is None
    assert back.credentials() == {"auth.bearer": "token-hidden"}
    assert [secret.get_secret_value() for secret in back.secrets] == [SIGNING]


async def test_the_key_is_changed_under_credentials(place: Place) -> None:
    """Fault 69: a new key seals them anew, with the signing secrets."""
    await apply(place.open(STORE__KEY=KEY), shop(secrets=[SIGNING], auth={"bearer": "token-hidden"}))

    await place.open(STORE__KEY=f"{OTHER} {KEY}").rekey()
    [entry] = await place.open(STORE__KEY=OTHER).entries()

    assert entry.locked is None
    assert entry.credentials() == {"auth.bearer": "token-hidden"}
