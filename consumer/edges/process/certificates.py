"""Read when our own certificates end: those that the worker shows to the broker and to callers of the API.

Data flow: settings -> :func:`broker_certificate`, :func:`api_certificate` -> :func:`read_ends` (in a thread,
at the start of the process that shows the certificate) -> Observer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.x509 import Certificate

from consumer.core.subscription.access_entry import certificates
from consumer.settings import Settings


def broker_certificate(settings: Settings) -> Mapping[str, Path]:
    """Return the PEM file that the worker shows to the broker, by the label of its series, if it has one."""
    file = settings.amqp.cert_file
    return {} if file is None else {"broker_client": Path(file)}


def api_certificate(settings: Settings) -> Mapping[str, Path]:
    """Return the PEM file of the API beside a worker, by the label of its series, if it has one."""
    file = settings.api.tls_certificate
    return {} if file is None or settings.api.listen is None else {"api": file}


def certificates_of(path: Path) -> Sequence[Certificate]:
    """Return the certificates of a PEM file, whose comments may have any encoding.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a valid PEM file of certificates.
    """
    return certificates(path.read_text("utf-8", "replace"))


def read_ends(files: Mapping[str, Path]) -> tuple[dict[str, float], dict[str, str]]:
    """Return when the first certificate of each file to end does so, and why other files cannot be read.

    The file of a client certificate contains its chain too, and a chain is of use until its first end.

    Returns:
        Unix seconds, and texts of faults, both by label.
    """
    ends, faults = {}, {}
    for label, path in files.items():
        try:
            found = certificates_of(path)
        except (OSError, ValueError) as error:
            faults[label] = str(error)
        else:
            ends[label] = min(one.not_valid_after_utc.timestamp() for one in found)
    return ends, faults
