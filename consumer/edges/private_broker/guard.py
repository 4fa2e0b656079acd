"""Stop a node when the process that needs it ends, even by SIGKILL.

It runs beside the owner, with a pipe as its standard input. The kernel closes the pipe's other end when the
owner ends. Then the guard stops the node, if that is still the node for which it was started.
"""

from __future__ import annotations

import sys
from pathlib import Path

from consumer.edges.private_broker.node import PrivateBroker
from consumer.edges.private_broker.processes import Identity
from consumer.edges.private_broker.server import Server


def main(arguments: list[str]) -> None:
    """Wait for the end of standard input, then stop the node.

    Args:
        arguments: LEVERET_HOME, the node's pid and start time, the server's scripts, epmd and chroot
            (``""`` for none).
    """
    home, pid, started, scripts, epmd, chroot = arguments
    sys.stdin.buffer.read()
    server = Server(Path(scripts), Path(epmd), Path(chroot) if chroot else None)
    PrivateBroker(Path(home), server=server).stop(only=Identity(int(pid), started))


if __name__ == "__main__":
    main(sys.argv[1:])
