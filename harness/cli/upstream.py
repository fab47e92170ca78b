"""`--upstream URL[=WEIGHT]`, as `harness run` and `harness proxy` take it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from harness.errors import UsageError


def weighted(texts: Sequence[str]) -> dict[str, float]:
    """The addresses with their weights, 1 unless one is given. Raises UsageError for what is no address."""
    return dict(map(_weighted, texts))


def _weighted(text: str) -> tuple[str, float]:
    url, equals, weight = text.rpartition("=")
    if not equals or not weight.replace(".", "", 1).isdecimal():
        url, weight = text, "1"
    if not _is_address(url):
        raise UsageError(f"--upstream {text}: an address begins with http:// or https://, e.g. http://gpu:8000/v1")
    if not float(weight) > 0:
        raise UsageError(f"--upstream {text}: a weight is above 0")
    return url, float(weight)


def _is_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0  # reading a port checks it
    except ValueError:
        return False
