"""`--upstream URL[=WEIGHT]`: where a model is served."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import UsageError


def weighted(texts: Sequence[str]) -> dict[str, float]:
    """The addresses with their weights, 1 where none is given. Raises UsageError for what is no address."""
    found: dict[str, float] = {}
    for text in texts:
        url, equals, weight = text.rpartition("=")
        if not equals or not weight.replace(".", "", 1).isdecimal():
            url, weight = text, "1"
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--upstream {text}: an address begins with http:// or https://, e.g. http://gpu:8000/v1")
        found[url] = float(weight)
    return found
