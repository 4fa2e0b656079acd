"""Start ``leveret`` as a fork of a process that has imported it: 0.15 s of a processor instead of 1.3 s.

Data flow: :class:`ForkServer` -> words, folder, environment and three files, over a socket -> the server, a
process with one thread -> a child of its own, which becomes ``leveret`` -> process id and exit code, over a
pipe.

The children share only the imports. Each has its own words, environment, files, process id and random
numbers, gets every signal, and ends as any Python process ends.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import consumer
from tests.support.data import ROOT

#: Variables that ``leveret`` reads when it runs, and that of pytest. Python reads others when it starts.
OWN: Final = ("LEVERET_", "_LEVERET_", "COMP_", "WEBHOOK_SECRET", "PYTEST_CURRENT_TEST")
NUMBER: Final = struct.Struct("q")  #: a process id or an exit code
REQUEST_BYTES: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1  #: Source: prctl(2)


class Forked:
    """A child of the server, with the methods of :class:`subprocess.Popen` that a test needs.

    Attributes:
        pid: Its process id.
        returncode: Its exit code once it was seen to have ended; a negative one is the signal that ended it.
    """

    def __init__(self, answers: int) -> None:
        """Wait until it exists.

        Args:
            answers: The pipe from the server.

        Raises:
            RuntimeError: the server has ended.
        """
        self._answers = answers
        self._end = weakref.finalize(self, os.close, answers)
        self._turn = threading.Lock()
        pid = self._number()
        if pid is None:
            raise RuntimeError("the fork server has ended")
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code.

        Raises:
            TimeoutExpired: it still runs after *timeout* seconds.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("leveret", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout_s: float | None) -> int | None:
        with self._turn:
            if self.returncode is None and self._has_answer(timeout_s):
                code = self._number()
                self.returncode = -signal.SIGKILL if code is None else code  # it ends with the server
                self._end()
            return self.returncode

    def _has_answer(self, timeout_s: float | None) -> bool:
        """Wait for an answer; not by select(2), which knows no file with a number of 1024 or more."""
        answers = select.poll()
        answers.register(self._answers, select.POLLIN)
        return bool(answers.poll(None if timeout_s is None else 1000 * timeout_s))

    def _number(self) -> int | None:
        """Return the next number; None when the server has ended."""
        answer = os.read(self._answers, NUMBER.size)
        return NUMBER.unpack(answer)[0] if answer else None


class ForkServer:
    """Starts its process with the first request, and ends it with :meth:`close` or with this process.

    Its process has the environment of the moment at which this object was made.
    """

    def __init__(self) -> None:
        self._env = dict(os.environ)
        self._turn = threading.Lock()
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def serves(self, env: Mapping[str, str]) -> bool:
        """Return whether *env* differs from the server's environment only in the variables of ``leveret``."""
        return sys.platform == "linux" and _rest(env) == _rest(self._env)

    def start(self, words: Sequence[str], files: Sequence[int], env: Mapping[str, str], cwd: Path) -> Forked:
        """Start ``leveret``.

        Args:
            words: Its command, with arguments.
            files: Its standard input, output and error; they stay open here.
            env: Its whole environment.
            cwd: Its folder.
        """
        request = json.dumps([words, str(cwd), dict(env)]).encode()
        answers, answer = os.pipe()
        try:
            socket.send_fds(self._connected(), [request], [*files, answer])
        except OSError:
            os.close(answers)
            raise
        finally:
            os.close(answer)
        return Forked(answers)

    def close(self) -> None:
        """End the server, and with it its children."""
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.wait()

    def _connected(self) -> socket.socket:
        with self._turn:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    argv = [sys.executable, "-m", __name__]
                    self._process = subprocess.Popen(argv, stdin=theirs.fileno(), cwd=ROOT, env=self._env)
            return self._requests


def _rest(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(OWN)}


def _import_all() -> None:
    """Import the product; none of its modules starts a thread by that."""
    for module in pkgutil.walk_packages(consumer.__path__, "consumer."):
        if not module.name.endswith("__main__") and ".migrations." not in module.name:
            import_module(module.name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that they share


def _serve(requests: socket.socket) -> bytes | None:
    """Fork for each request; return it in the child, and None in the server once the requests have ended."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test and its children
    signal.set_wakeup_fd(wake)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, REQUEST_BYTES)
            _reap(running)
        if requests.fileno() in ready:
            request, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 4)
            if not request:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                requests.detach()
                for number, file in enumerate(files[:3]):
                    os.dup2(file, number)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                return request
            _tell(files[3], pid)
            running[pid] = files.pop()
            for file in files:
                os.close(file)


def _reap(running: dict[int, int]) -> None:
    """Pass on the exit codes of all children that have ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        answer = running.pop(pid)
        _tell(answer, os.waitstatus_to_exitcode(status))
        os.close(answer)


def _tell(answer: int, number: int) -> None:
    try:
        os.write(answer, NUMBER.pack(number))
    except BrokenPipeError:  # the test has let go of it
        return


def _become(request: bytes) -> None:
    """Run ``leveret`` as a Python that was started for it alone."""
    words, folder, env = json.loads(request)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["leveret", *words]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    runpy.run_module("consumer", run_name="__main__", alter_sys=True)


def main() -> None:
    """Import the product, and serve the socket that is standard input."""
    _import_all()
    request = _serve(socket.socket(fileno=0))
    if request is not None:
        _become(request)


if __name__ == "__main__":
    main()
