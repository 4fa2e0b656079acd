"""Where settings come from: files, the environment, and secrets in files of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import ConfigError
from consumer.settings import Settings, load_settings, split_amqp_urls
from tests.support.settings import faults


def test_the_file_is_looked_for_in_three_places(tmp_path: Path) -> None:
    """LEVERET_CONFIG, else ./leveret.toml, else LEVERET_HOME/leveret.toml."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "leveret.toml").write_text("listen = '127.0.0.1:1'\n")
    in_home = load_settings({"LEVERET_HOME": str(home)})
    (tmp_path / "leveret.toml").write_text("listen = '127.0.0.1:2'\n")
    here = load_settings({"LEVERET_HOME": str(home)})
    (tmp_path / "other.toml").write_text("listen = '127.0.0.1:3'\n")
    named = load_settings({"LEVERET_HOME": str(home), "LEVERET_CONFIG": "other.toml"})

    assert [settings.listen_port for settings in (in_home, here, named)] == [1, 2, 3]
    assert faults({"LEVERET_CONFIG": "gone.toml"}) == [
        "LEVERET_CONFIG: the file gone.toml does not exist; name an existing one or unset it"
    ]


def test_the_home_is_absolute_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 81: wherever the process goes later, its home stays where it was."""
    monkeypatch.chdir(tmp_path)
    given = load_settings({"LEVERET_HOME": "state"})
    monkeypatch.chdir("/")

    assert given.home == tmp_path / "state"
    assert load_settings({"LEVERET_HOME": "/var/lib/leveret"}).home == Path("/var/lib/leveret")


def test_foreign_variables_do_not_stop_the_start() -> None:
    """Outside contract, environment: what Kubernetes makes for a service `leveret` is no setting."""
    foreign = {
        "LEVERET_SERVICE_HOST": "10.0.0.1",
        "LEVERET_SERVICE_PORT_HTTP": "80",
        "LEVERET_PORT": "tcp://10.0.0.1:80",
        "LEVERET_PORT_80_TCP_ADDR": "10.0.0.1",
        "LEVERET_TEST_ANYTHING": "1",
        "LEVERET_TOPOLOGY__PREFIX": "",
        "OTHER": "1",
    }

    assert load_settings(foreign) == Settings(home=Path(".leveret").absolute())


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("AMQP_URL", "amqp://user:hush@h/", "http://user:hush@h/"),
        ("DATABASE_URL", "postgresql://user:hush@h/d", "mysql://user:hush@h/d"),
        ("AMQP_URL", "amqp://user:hush@h/%2F", "amqp://user:1/hush@h/"),
        ("AMQP_URL", "amqp://user:hush@h/?heartbeat=5", "amqp://user:1?hush@h/"),
        ("AMQP_URL", "amqp://user:hush@h/v", "amqp://user:a@1/hush@h/"),
        ("DATABASE_URL", "postgres://user:hush@h:5432/d?sslmode=require", "postgresql://user:hush@h:x/d"),
        ("DATABASE_URL", "postgresql://user:hush@h:1,[::1]:2,i/d", "postgresql://user:1/hush@h/d"),
        ("DATABASE_URL", "postgresql:///d?host=/run&password=hush", "postgresql://user:1?hush@h/d"),
        ("DATABASE_URL", "postgresql://user:hush@h/d?sslmode=", "postgresql://user:1,[hush@h/d"),
        ("DATABASE_URL", "postgresql://user:hush@h:65535/d", "postgresql://user:hush@h:65536,i/d"),
        ("STORE__KEY", "hushhushhushhushhushhushhushhushhushhushhus=", "hush"),
        ("STORE__KEY", f"{'hush' * 10}hus=, {'HUSH' * 10}HUS=", f"{'hush' * 10}hus= hush"),
    ],
)
def test_a_secret_is_in_no_message_and_no_repr(name: str, good: str, bad: str) -> None:
    """An error or a repr never holds a password or a key."""
    settings = load_settings({f"LEVERET_{name}": good})
    assert "hush" not in repr(settings) + str(settings)

    lines = faults({f"LEVERET_{name}": bad, "LEVERET_LISTEN": "x"})
    assert len(lines) == 2
    assert "hush" not in "".join(lines)


def test_the_database_url_comes_from_a_file_too(tmp_path: Path) -> None:
    """As a mounted secret; what is set nearer hides the other way to say it."""
    secret = tmp_path / "database"
    secret.write_text("postgres://u:p@h/d\n")
    filed = load_settings({"LEVERET_DATABASE_URL_FILE": str(secret)})
    assert filed.postgres_url() == "postgresql://u:p@h/d"
    assert load_settings({}).postgres_url() is None

    config = tmp_path / "leveret.toml"
    config.write_text(f'database_url_file = "{secret}"\n[store]\nkey_file = "{secret}"\n')
    near = {"LEVERET_CONFIG": str(config), "LEVERET_DATABASE_URL": "postgresql+asyncpg://near/d"}
    assert load_settings(near).postgres_url() == "postgresql://near/d"
    assert load_settings(near | {"LEVERET_STORE__KEY": "A" * 43 + "="}).store.key_file is None

    secret.write_text("mysql://u:p@h/d")
    with pytest.raises(ConfigError, match=rf"^database_url_file: {secret}: must be postgresql://"):
        filed.postgres_url()


def test_two_ways_to_say_one_thing_in_one_place_is_an_error(tmp_path: Path) -> None:
    """Key and key file, or URL and URL file, of one source contradict each other."""
    both = {"LEVERET_STORE__KEY": "A" * 43 + "=", "LEVERET_STORE__KEY_FILE": "f"}
    [line] = faults(both)
    assert "store.key and store.key_file cannot both be set" in line
    [line] = faults({"LEVERET_DATABASE_URL": "postgresql://h/d", "LEVERET_DATABASE_URL_FILE": "f"})
    assert "database_url and database_url_file cannot both be set" in line


@pytest.mark.parametrize("query", ["no_verify_ssl=1", "heartbeat=5&no_verify_ssl=0", "NO_VERIFY_SSL=1"])
def test_a_url_cannot_switch_off_the_check_of_the_brokers_certificate(query: str) -> None:
    """The remedy is the authority's file; the URL, which holds a password, is never repeated."""
    with pytest.raises(
        ConfigError, match=r"no_verify_ssl; name the broker's authority in .amqp. ca_file"
    ) as no:
        load_settings({"LEVERET_AMQP_URL": f"amqps://u:geheim@h/?{query}"})

    assert "geheim" not in str(no.value)


def test_amqp_urls_come_as_a_list_or_from_a_file(tmp_path: Path) -> None:
    """AMQP URL list, URL from a file that is read anew at each connection."""
    listed = load_settings({"LEVERET_AMQP_URL": "amqp://u:a,b@one/ , amqps://two/%2f amqp://three"})
    assert listed.amqp_urls() == ("amqp://u:a,b@one/", "amqps://two/%2f", "amqp://three")

    secret = tmp_path / "amqp"
    secret.write_text("amqp://one\n")
    filed = load_settings({"LEVERET_AMQP_URL_FILE": str(secret)})
    assert filed.amqp_urls() == ("amqp://one",)
    secret.write_text("amqp://two\n")
    assert filed.amqp_urls() == ("amqp://two",)
    secret.unlink()
    with pytest.raises(ConfigError, match=r"^amqp_url_file: cannot read .*: No such file or directory$"):
        filed.amqp_urls()


def test_the_environment_chooses_between_url_and_url_file(tmp_path: Path) -> None:
    """Outside contract, environment: URL or URL file; the higher layer's choice hides the lower one's."""
    (tmp_path / "leveret.toml").write_text('amqp_url_file = "gone"\n')

    assert load_settings({"LEVERET_AMQP_URL": "amqp://h"}).amqp_urls() == ("amqp://h",)
    assert faults({"LEVERET_AMQP_URL": "amqp://h", "LEVERET_AMQP_URL_FILE": "x"}) == [
        "settings: amqp_url and amqp_url_file cannot both be set; remove one"
    ]


@given(st.text(max_size=60))
def test_any_text_as_an_amqp_url_is_taken_or_refused(text: str) -> None:
    """No value makes the check fail in any other way, nor is it repeated."""
    for url in (text, f"amqp://{text}", f"amqp://user:{text}@host"):
        try:
            urls = split_amqp_urls(url)
        except ValueError as refused:
            told = str(refused)
        else:
            assert urls
            continue
        assert told.startswith("contains no AMQP URL; write ") or told.endswith(
            ("or amqps://...", "as %40 %2F %3F %23")
        )
