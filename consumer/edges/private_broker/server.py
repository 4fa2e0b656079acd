"""Find an installed RabbitMQ server, its start script, and the epmd of its Erlang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from consumer.core.errors import ConfigError

#: Folders of the inner start script: Debian and RPM, Homebrew on both Macs, the official image.
USUAL_PLACES = (
    "/usr/lib/rabbitmq/bin",
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
    "/opt/rabbitmq/sbin",
    "/usr/local/sbin",
)
_ERLANG_PLACES = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/usr/lib/erlang/bin",
    "/usr/lib64/erlang/bin",
)
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin"

REMEDY = """\
no RabbitMQ server was found{where}. Choose one of these remedies:
  - install one: `make broker-install`, `apt-get install rabbitmq-server`, `dnf install rabbitmq-server` \
or `brew install rabbitmq` (its own service need not run)
  - name another installation: LEVERET_RABBITMQ_HOME=<its folder, with sbin or bin in it>
  - run one in a container: `docker run -d --name leveret-rabbitmq -p 127.0.0.1:5672:5672 rabbitmq:4` \
and set LEVERET_AMQP_URL=amqp://guest:guest@127.0.0.1:5672
  - use your own broker: LEVERET_AMQP_URL=amqp://<user>:<password>@<host>:5672/<vhost>"""


@dataclass(frozen=True, slots=True)
class Server:
    """An installed RabbitMQ: the folders of its programs, and its root folder."""

    scripts: Path  #: folder with rabbitmq-server and rabbitmqctl, as the server sees it
    epmd: Path  #: as the server sees it
    chroot: Path | None = None  #: root folder of another Linux system that contains the server; needs root

    def command(self, program: Path, *arguments: str) -> list[str]:
        """Return the argv that runs one of the server's programs."""
        prefix = ["chroot", str(self.chroot)] if self.chroot else []
        return [*prefix, str(program), *arguments]

    def search_path(self) -> str:
        """Return the PATH of the server's processes; it includes Erlang's own folder."""
        ours = _SYSTEM_PATH if self.chroot else f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}"
        return f"{self.epmd.parent}:{ours}"


def find_server(
    home: Path | None = None, chroot: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Server:
    """Return the RabbitMQ server to use: the named one, else the first in the usual places.

    Args:
        home: Folder of an installation, with ``sbin`` or ``bin``. None reads ``LEVERET_RABBITMQ_HOME``.
        chroot: Root folder of another Linux system to search. None reads ``LEVERET_RABBITMQ_CHROOT``.
        environ: Environment variables; they are read here because tests and benches run without settings.

    Raises:
        ConfigError: no server was found; the text names every remedy.
    """
    named = home or _path(environ.get("LEVERET_RABBITMQ_HOME"))
    root = chroot or _path(environ.get("LEVERET_RABBITMQ_CHROOT"))
    root = root.resolve() if root else None
    where = f" in {named or root}" if named or root else ""
    if named:
        places = [named / "sbin", named / "bin", named]
    else:
        places = [Path(place) for place in USUAL_PLACES] + ([] if root else list(_on_path(environ)))
    scripts = next((place for place in places if _is_inner_script(_seen(root, place))), None)
    if scripts is None:
        raise ConfigError(REMEDY.format(where=where))
    epmd = next(_epmds(root, environ), None)
    if epmd is None:
        raise ConfigError(
            f"{scripts} has no Erlang: neither erl nor epmd was found; install Erlang or put it on PATH"
        )
    return Server(scripts, epmd, root)


def _path(text: str | None) -> Path | None:
    """Return the folder that a variable names; an empty one counts as absent."""
    return Path(text) if text else None


def _seen(root: Path | None, path: Path) -> Path:
    """Return *path* as we see it if the server sees *root* as ``/``."""
    return root / path.relative_to("/") if root and path.is_absolute() else path


def _is_inner_script(folder: Path) -> bool:
    """Return whether *folder* has the server's own start script, not a package's wrapper for root."""
    return (folder / "rabbitmq-server").exists() and (folder / "rabbitmq-env").exists()


def _on_path(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folder of each rabbitmq-server on PATH, with links resolved."""
    for folder in environ.get("PATH", "").split(os.pathsep):
        script = Path(folder) / "rabbitmq-server"
        if folder and script.exists():
            yield script.resolve().parent


def _epmds(root: Path | None, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield each epmd beside an ``erl``; some packages keep it only in Erlang's runtime folder."""
    erl = None if root else shutil.which("erl", path=environ.get("PATH"))
    folders = [Path(erl).parent, Path(erl).resolve().parent] if erl else []
    for folder in [*folders, *(Path(place) for place in _ERLANG_PLACES)]:
        seen = _seen(root, folder)
        if (seen / "epmd").exists():
            yield folder / "epmd"
        for runtime in sorted(seen.glob("../erts-*/bin/epmd"), reverse=True):
            yield folder / runtime.relative_to(seen)
