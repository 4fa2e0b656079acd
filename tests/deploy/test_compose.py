"""docker-compose.yml, Dockerfile and the files they mount: pinned, bounded, on loopback, free of secrets."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from consumer.core.changes.file import parse_subscriptions
from consumer.core.retry.policy import max_age_s
from consumer.edges.private_broker.files import (
    ADVANCED_CONFIG,
    PLUGINS,
    SEGMENT_MAX_ENTRIES,
    WAL_MAX_SIZE_BYTES,
)
from consumer.settings import Settings, load_settings, split_amqp_urls
from deploy.compose_setup import SAMPLE, broker_definitions, main, password_hash
from tests.support.data import ROOT
from tests.support.processes.children import python_env
from tests.support.processes.prometheus import Prometheus, promtool
from tests.support.repository.compose import COMPOSE, DOCKERFILE, SERVICES, mounts
from topology.permissions import permissions
from topology.plan import build_plan

IDS = sorted(SERVICES)


@pytest.mark.parametrize("name", IDS)
def test_images_are_pinned_to_a_version(name: str) -> None:
    """An exact tag: the same image starts every day."""
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+(-management)?", SERVICES[name]["image"])


def test_the_versions_are_those_that_were_asked_for() -> None:
    """RabbitMQ 4.0.9 with its page; our own image carries our version; Python is the tested one."""
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)

    assert version is not None
    assert SERVICES["rabbitmq"]["image"] == "rabbitmq:4.0.9-management"
    assert SERVICES["leveret"]["image"] == f"leveret:{version[1]}"
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE) == ["python:3.11.13-slim-bookworm"] * 2


@pytest.mark.parametrize("name", IDS)
def test_ports_are_on_loopback(name: str) -> None:
    """Nothing is reachable from another machine."""
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


@pytest.mark.parametrize("name", IDS)
def test_a_service_is_bounded(name: str) -> None:
    """Memory, CPU, processes and log; no further privileges."""
    service = SERVICES[name]

    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["cpus"] <= 2
    assert service["pids_limit"] <= 1024
    assert service["logging"]["options"]["max-size"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert name == "rabbitmq" or service["cap_drop"] == ["ALL"]  # its entry point changes user by itself


@pytest.mark.parametrize("name", IDS)
def test_a_service_waits_for_its_dependencies(name: str) -> None:
    """Each condition can come true: a health check where one is waited for, a job where its end is."""
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        other = SERVICES[needed]
        if how["condition"] == "service_completed_successfully":
            assert other["restart"] == "no"
        elif how["condition"] == "service_healthy":
            own = "test" in other.get("healthcheck", {})
            assert own or ("healthcheck" not in other and other["image"].startswith("leveret:"))
        else:
            assert how["condition"] == "service_started"


def test_services_that_stay_have_a_health_check() -> None:
    """Compose can check whether each is well: by its own check, or by the image's."""
    staying = {n: s for n, s in SERVICES.items() if s["restart"] == "unless-stopped"}

    assert set(staying) == {
        *("rabbitmq", "leveret", "prometheus", "alertmanager", "alert-log", "grafana", "receiver")
    }
    assert [n for n, s in staying.items() if "test" not in s.get("healthcheck", {})] == ["leveret"]
    assert "HEALTHCHECK" in DOCKERFILE
    assert "readyz" in DOCKERFILE
    assert not re.search(r"\b(curl|wget)\b", DOCKERFILE)


@pytest.mark.parametrize("name", IDS)
def test_every_mounted_file_exists(name: str) -> None:
    """A file of the checkout exists and is read-only; a volume is declared."""
    for source, target, read_only in mounts(SERVICES[name]):
        assert target.startswith("/")
        if source.startswith("./"):
            assert (ROOT / source).exists(), source
            assert read_only, source
        else:
            assert source in COMPOSE["volumes"]


def test_every_volume_is_used() -> None:
    """Each declared one is used."""
    used = {source for service in SERVICES.values() for source, _, _ in mounts(service)}

    assert set(COMPOSE["volumes"]) <= used


def test_no_secret_is_in_the_environment() -> None:
    """Passwords come from files: variables are shown by `docker inspect` to everybody who may use it."""
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            secret = re.search(r"PASS|SECRET|TOKEN|KEY|AMQP_URL", key)
            assert not secret or str(value).startswith("/run/"), f"{name}: {key}"
    assert "amqp://" not in (ROOT / "docker-compose.yml").read_text()


def test_a_secret_is_mounted_where_it_is_read() -> None:
    """Each file that a variable or a command names is in a volume of that service, where setup writes it."""
    written = {target.removeprefix("/setup/"): source for source, target, _ in mounts(SERVICES["setup"])}
    reads = 0
    for name, service in SERVICES.items():
        words = [str(v) for v in service.get("environment", {}).values()] + list(service.get("command", ()))
        for path in (word for word in words if word.startswith("/run/")):
            reads += 1
            volume = {target: source for source, target, _ in mounts(service)}[str(Path(path).parent)]
            folder = next(folder for folder, source in written.items() if source == volume)
            assert (folder, Path(path).name) in SETUP_FILES, f"{name}: {path}"
    assert reads >= 6


SETUP_FILES = {
    ("rabbitmq", "definitions.json"),
    ("rabbitmq", "admin-password"),
    ("leveret", "amqp-url"),
    ("leveret", "password"),
    ("publisher", "amqp-url"),
    ("publisher", "password"),
    ("grafana", "admin-password"),
    ("sample", "webhook-secrets"),
    ("sample", "subscriptions.yaml"),
}


def made(folder: Path) -> dict[str, str]:
    """Run the set-up; return every file that it wrote, by its path."""
    main(folder)
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_set_up_draws_passwords_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second `docker compose up` changes no password; two machines have none in common."""
    monkeypatch.chdir(tmp_path)
    first, second = made(tmp_path / "a"), made(tmp_path / "a")
    other = made(tmp_path / "b")

    assert {tuple(name.split("/")) for name in first} == SETUP_FILES
    kept = [name for name in first if name != "rabbitmq/definitions.json"]  # hashed with a new salt each time
    assert [name for name in kept if first[name] != second[name]] == []
    assert [name for name in kept if first[name] == other[name]] == []
    for name in ("leveret", "publisher"):
        [url] = split_amqp_urls(first[f"{name}/amqp-url"])
        assert url == f"amqp://{name}:{first[f'{name}/password']}@rabbitmq:5672"
        assert len(first[f"{name}/password"]) >= 32


def test_the_set_up_runs_as_the_image_runs_it(tmp_path: Path) -> None:
    """As a script beside the installed packages, in a folder without a checkout."""
    script = tmp_path / "compose_setup.py"
    script.write_bytes((ROOT / "deploy" / "compose_setup.py").read_bytes())

    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "setup")], cwd=tmp_path, env=python_env(), check=False
    )

    assert done.returncode == 0
    assert (tmp_path / "setup" / "rabbitmq" / "definitions.json").exists()


def test_the_definitions_are_the_topology_and_three_users() -> None:
    """Exchanges, queues and bindings as `topology export` prints them; each user has the rights it needs."""
    settings = Settings()
    spec = settings.topology_spec()
    login = {"leveret": "one", "publisher": "two", "admin": "three"}

    document = broker_definitions(settings, login)

    plan = build_plan(spec)
    assert [queue["name"] for queue in document["queues"]] == [queue.name for queue in plan.queues]
    assert {e["vhost"] for kind in ("queues", "exchanges", "bindings") for e in document[kind]} == {"/"}
    rights = {p["user"]: (p["configure"], p["write"], p["read"]) for p in document["permissions"]}
    needed = permissions(spec, declare=True)
    assert rights["leveret"] == (needed.configure, needed.write, needed.read)
    assert rights["publisher"] == ("^$", r"^leveret\.events$", "^$")
    assert {u["name"]: u["tags"] for u in document["users"]} == {
        "leveret": ["monitoring"],
        "publisher": [],
        "admin": ["administrator"],
    }
    assert not any(password in json.dumps(document["users"]) for password in ("one", "two", "three"))


def test_a_password_is_hashed_as_rabbitmq_does_it() -> None:
    """The example of RabbitMQ's page on passwords: salt 908DC60A, password test12."""
    assert (
        password_hash("test12", bytes.fromhex("908DC60A"))
        == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    )
    stored = base64.b64decode(password_hash("x"))
    assert stored[4:] == hashlib.sha256(stored[:4] + b"x").digest()


def test_the_sample_subscriptions_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the settings of the service that applies them, with the secrets that the receiver knows."""
    monkeypatch.chdir(tmp_path)
    files = made(tmp_path / "setup")
    [allowed] = {SERVICES[n]["environment"]["LEVERET_EGRESS__ALLOW"] for n in ("leveret", "subscribe")}
    rules = load_settings(environ={"LEVERET_EGRESS__ALLOW": allowed}).subscription_rules()

    parsed = parse_subscriptions(files["sample/subscriptions.yaml"], "sample", rules)
    entries = parsed.entries

    assert {entry.tenant for entry in entries} == set(SAMPLE)
    assert len(entries) == 4
    assert parsed.warnings == ()
    secrets = yaml.safe_load(files["sample/subscriptions.yaml"])["subscriptions"]
    assert {s for e in secrets for s in e["secrets"]} == set(files["sample/webhook-secrets"].split())
    port = SERVICES["receiver"]["command"][SERVICES["receiver"]["command"].index("--port") + 1]
    assert all(entry.url.startswith(f"http://127.0.0.1:{port}/") for entry in entries)
    assert SERVICES["receiver"]["network_mode"] == "service:leveret"
    [dead] = [e for e in entries if e.url.endswith("/dead/globex")]
    assert max_age_s(dead.build(rules).retry) == 30  # so that something is parked within a minute


def test_the_daemons_settings_are_valid() -> None:
    """Every LEVERET_ variable of the file and of the image is a setting that exists."""
    image = dict(re.findall(r"\b(LEVERET_\w+)=(\S+)", DOCKERFILE))
    for service in SERVICES.values():
        environ = image | {
            k: v for k, v in service.get("environment", {}).items() if k.startswith("LEVERET_")
        }
        settings = load_settings(environ=environ)
        assert (settings.listen_host, settings.listen_port) == ("0.0.0.0", 8080)  # noqa: S104 - in a container
    assert SERVICES["leveret"]["ports"] == ["127.0.0.1:8080:8080"]


def test_the_brokers_files_are_those_of_the_private_broker() -> None:
    """The same plugins and small logs as everywhere else in the tests; a watermark under the limit."""
    folder = ROOT / "deploy" / "rabbitmq"
    conf = dict(
        re.findall(r"^([\w.]+) = (\S+)$", (folder / "20-leveret.conf").read_text(), flags=re.MULTILINE)
    )

    assert (folder / "enabled_plugins").read_text() == f"[{','.join(PLUGINS)}].\n"
    assert (folder / "advanced.config").read_text() == ADVANCED_CONFIG
    assert int(conf["raft.wal_max_size_bytes"]) == WAL_MAX_SIZE_BYTES
    assert int(conf["raft.segment_max_entries"]) == SEGMENT_MAX_ENTRIES
    assert conf["load_definitions"] == "/run/leveret/definitions.json"
    assert conf["vm_memory_high_watermark.absolute"] == "700MB"
    assert SERVICES["rabbitmq"]["mem_limit"] == "1g"


def test_prometheus_is_given_its_files_where_it_looks(tmp_path: Path) -> None:
    """promtool accepts the configuration unchanged, with the compose file's own targets."""
    laid_out = Prometheus(tmp_path, {})
    laid_out.lay_out()
    done = promtool("check", "config", laid_out.config)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()

    inside = {target: source for source, target, _ in mounts(SERVICES["prometheus"])}
    assert inside["/etc/prometheus/alerts.yml"] == "./grafana/alerts.yml"
    assert inside["/etc/prometheus/targets"] == "./deploy/prometheus/targets"
    targets = [yaml.safe_load(p.read_text()) for p in sorted((laid_out.folder / "targets").glob("*.yml"))]
    assert [t["targets"] for [t] in targets] == [["alertmanager:9093"], ["leveret:8080"], ["rabbitmq:15692"]]


def test_prometheus_keeps_the_exemplars_of_the_workers() -> None:
    """Without the feature it drops them, and no point of a histogram leads to its trace."""
    command = SERVICES["prometheus"]["command"]

    assert "--enable-feature=exemplar-storage" in command
    assert [word for word in command if word.startswith("--enable-feature")] == [
        "--enable-feature=exemplar-storage"
    ]


def test_grafana_opens_on_the_dashboard() -> None:
    """Anonymous, on loopback, the dashboard as home; the data source has the id that the dashboard knows."""
    grafana = SERVICES["grafana"]
    inside = {target: ROOT / source for source, target, _ in mounts(grafana) if source.startswith("./")}
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    [source] = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yaml").read_text())[
        "datasources"
    ]
    [provider] = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/leveret.yaml").read_text())[
        "providers"
    ]
    board = json.loads((inside[str(home.parent)] / home.name).read_text())
    variables = {v["name"]: v for v in board["templating"]["list"]}

    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert provider["options"]["path"] == str(home.parent)
    assert source["uid"] == variables["datasource"]["current"]["value"]
    assert source["url"] == "http://prometheus:9090"
    interval = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"][
        "scrape_interval"
    ]
    assert source["jsonData"]["timeInterval"] == interval
    runbook = "/usr/share/grafana" + variables["runbook"]["query"]
    assert inside[runbook] == ROOT / "consumer/edges/serve/runbook.html"


def test_the_image_holds_only_the_necessary() -> None:
    """Every path that is copied exists and is let through; the libraries are installed by their hashes."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE)
        for source in line.split()[:-1]
    ]

    assert ignored[1] == "*"
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source
    assert {"consumer", "topology", "metrics"} <= set(copied)
    installs = re.findall(r"pip install (.+?)(?: \\)?$", DOCKERFILE, flags=re.MULTILINE)
    assert len(installs) == 3
    assert all("--require-hashes" in i or "--no-index" in i for i in installs)
    assert DOCKERFILE.index("\nUSER leveret\n") < DOCKERFILE.index("\nENTRYPOINT ")


def test_the_build_tools_lines_of_the_lock_are_found() -> None:
    """The Dockerfile cuts setuptools with its hashes out of the development lock, and nothing else."""
    [program] = re.findall(r"awk '(.+?)' requirements-dev\.lock", DOCKERFILE)

    done = subprocess.run(
        ["awk", program, "requirements-dev.lock"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    packages = re.findall(r"^(\S+)==", done.stdout, flags=re.MULTILINE)
    assert packages == ["setuptools"]
    assert done.stdout.count("--hash=sha256:") >= 2
