"""Open the address of the API, and check its certificate, without the libraries that serve it.

Data flow: ApiSettings -> :func:`listen` -> socket -> :mod:`consumer.web.server`, in this process or a child.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from consumer.core.errors import ConfigError
from consumer.settings.api import ApiSettings

BACKLOG: Final = 512


def listen(api: ApiSettings) -> socket.socket:
    """Return a socket that listens on the address of the settings.

    Raises:
        ConfigError: the address is taken or not of this machine.
    """
    host, port = api.place()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"api.listen: {host}:{port}: {reason}; choose another address with LEVERET_API__LISTEN"
        ) from None


def check_certificate(api: ApiSettings) -> None:
    """Check that the certificate of the settings can be used, if they name one.

    Raises:
        ConfigError: it cannot.
    """
    if api.tls_certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(api.tls_certificate, api.tls_key)
    except OSError as error:  # of which ssl.SSLError is a kind
        raise certificate_fault(error) from None


def certificate_fault(error: OSError) -> ConfigError:
    """Return the error of a certificate that cannot be used."""
    reason = error.strerror or str(error)
    return ConfigError(f"api.tls_certificate, api.tls_key: {reason}; check both files")
