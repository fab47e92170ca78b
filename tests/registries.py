"""The package registries that agent programs are installed from, and whether they answer."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterable

_ANSWER_SEC = 20.0


def registries() -> list[str]:
    """One address of each, of the mirrors where this machine names some."""
    python = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    node = next(
        (os.environ[name] for name in ("NPM_CONFIG_REGISTRY", "npm_config_registry") if os.environ.get(name)),
        "https://registry.npmjs.org",
    )
    debian = "http://deb.debian.org/debian/dists/bookworm/InRelease"
    return [f"{python.rstrip('/')}/pip/", f"{node.rstrip('/')}/-/ping", debian]


def silent(addresses: Iterable[str]) -> list[str]:
    """Those that nobody answers at, or with an error of the server's own; that something is not there is an answer."""
    return [address for address in addresses if not _answers(address)]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=_ANSWER_SEC):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500 and error.code != 429
    except OSError:
        return False
