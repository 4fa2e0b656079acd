"""Send requests to the API, follow its pages, and turn its problems into one-line errors.

Data flow: path, values -> request with the token -> JSON, or a problem document -> :class:`ServerProblem`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

import httpx2

from consumer.cli.remote.options import ServerOptions, read_token
from consumer.core.errors import ConfigError, LeveretError

PAGE: Final = 500  #: items of a page that are asked for, unless the server allows fewer
TRIES: Final = 5  #: requests that are sent while the server answers 429
PAUSE_MAX_S: Final = 10.0  #: longest pause that a 429 may ask for
Params = Mapping[str, str | int | bool | Sequence[str] | None]


class ServerProblem(LeveretError):
    """The answer of the server to a request that it did not do: ``field: fault; remedy``, a line for each."""

    def __init__(self, status: int, text: str, retry_after: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after


class ServerAway(LeveretError):
    """The server cannot be reached, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    body: Any
    etag: str | None = None


class Client:
    """Requests to one server. Nothing is read or opened before the first one."""

    def __init__(self, options: ServerOptions, transport: httpx2.BaseTransport | None = None) -> None:
        """Bind to a server.

        Args:
            options: The server.
            transport: Carries the requests instead of the network.
        """
        self.options = options
        self._transport = transport
        self._http: httpx2.Client | None = None

    def get(self, path: str, params: Params | None = None) -> Answer:
        """Read *path*.

        Raises:
            ServerProblem, ServerAway, ConfigError, OSError: as :meth:`send`.
        """
        return self.send("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Send *body* to *path* and return the answer's body.

        Raises:
            ServerProblem, ServerAway, ConfigError, OSError: as :meth:`send`.
        """
        return self.send("POST", path, body={} if body is None else body).body

    def items(self, path: str, params: Params | None = None) -> Iterator[dict[str, Any]]:
        """Yield the items of a list over all of its pages; `limit` in *params* is the size of a page.

        Raises:
            ServerProblem, ServerAway, ConfigError, OSError: as :meth:`send`.
        """
        wanted = dict(params or {})
        while True:
            page = self.get(path, wanted).body
            yield from page["items"]
            if not page["next"]:
                return
            wanted["cursor"] = page["next"]

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Answer:
        """Send one request; a 429 is waited out.

        Raises:
            ServerProblem: the server did not do it.
            ServerAway: it cannot be reached, or does not answer in time.
            ConfigError, OSError: the token or the certificate authority cannot be read.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        http = self._opened()
        for left in reversed(range(TRIES)):
            try:
                response = http.request(method, path, params=given, json=body)
            except httpx2.HTTPError as error:
                raise ServerAway(self._why(error)) from None
            if response.status_code != 429 or not left:
                break
            time.sleep(_pause_s(response))
        if not response.is_success:
            raise _problem(self.options.url, response)
        return Answer(response.json() if response.content else None, response.headers.get("etag"))

    def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _opened(self) -> httpx2.Client:
        if self._http is None:
            token = read_token(self.options.token_file)
            self._http = httpx2.Client(
                base_url=self.options.url,
                headers={"Authorization": f"Bearer {token}", "User-Agent": f"leveret/{version('leveret')}"},
                verify=_tls(self.options.ca_file),
                timeout=self.options.timeout_s,
                transport=self._transport,
                trust_env=False,
                follow_redirects=False,
            )
        return self._http

    def _why(self, error: httpx2.HTTPError) -> str:
        """Return the fault of a request that got no answer, and its remedy."""
        if isinstance(error, httpx2.TimeoutException):
            fault = f"no answer within {self.options.timeout_s:g} s"
            return f"{self.options.url}: {fault}; it may have done its part: look, or see --server-timeout-s"
        text = str(error) or type(error).__name__
        if "certificate" in text.lower():
            return f"{self.options.url}: {text}; name its authority with --ca-file"
        return f"{self.options.url}: {text}; check the URL, and that `leveret serve` runs there"


def _tls(ca_file: str | None) -> ssl.SSLContext:
    """Return the check of the server's certificate.

    Raises:
        ConfigError: the file has no certificate.
        OSError: the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigError(f"--ca-file: {ca_file} is not a PEM file with certificates") from None


def _pause_s(response: httpx2.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), PAUSE_MAX_S) if text.isascii() and text.isdecimal() else 1.0


def _problem(url: str, response: httpx2.Response) -> ServerProblem:
    """Return the error of an answer that is not a success."""
    try:
        found = response.json()
        faults = [_line(fault) for fault in found["errors"]]
    except (ValueError, KeyError, TypeError):
        remedy = "check that the URL is that of `leveret serve`"
        return ServerProblem(response.status_code, f"{url} answered {response.status_code}; {remedy}")
    return ServerProblem(response.status_code, "\n".join(faults), response.headers.get("retry-after"))


def _line(fault: Mapping[str, str | None]) -> str:
    field, remedy = fault["field"], fault["remedy"]
    head = f"{field}: " if field else ""
    return f"{head}{fault['detail']}{f'; {remedy}' if remedy else ''}"


def segment(text: str) -> str:
    """Return *text* as one segment of a path."""
    return quote(text, safe="")
