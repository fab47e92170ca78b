"""What has to be the same wherever the policy samples, is trained and is served; and the first thing that is not.

A policy that is trained under one chat template and served under another is not the policy that was measured. So each
side tells its fields, by name, as a digest or a plain value, and what two sides both tell has to be equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from harness.errors import UsageError
from harness.export.schema import RLSample

Fingerprint = Mapping[str, Any]
"""Field to value. None is what a side does not know."""

_DECODING = ("temperature", "top_p", "top_k")
_ADDRESS = ("base_url", "upstreams", "api_key_env")


def digest(value: Any) -> str:
    """Of anything that JSON can hold."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def of_scaffold(described: Mapping[str, Any]) -> dict[str, Any]:
    """Of an agent as its settings describe it: the decoding apart, so that what differs can be named."""
    parameters = dict(described.get("parameters") or {})
    rest = {key: value for key, value in described.items() if key not in (*_ADDRESS, "parameters")}
    return {"scaffold": digest(rest), **{name: parameters.get(name) for name in _DECODING if name in parameters}}


def of_rows(groups: Iterable[Sequence[RLSample]]) -> dict[str, Any]:
    """Of attempts as they were recorded: what they agree on. Raises Mismatch where they do not."""
    found: dict[str, Any] = {}
    for rows in groups:
        for row in rows:
            if row.trainable:
                own = {name: getattr(row, name) for name in _DECODING} | {"agent": f"{row.agent} {row.agent_version}"}
                require_same(found, own, "attempts before", f"attempt {row.trial}")
                found.update({name: value for name, value in own.items() if value is not None})
    return found


class Mismatch(UsageError):
    """Two sides that should be one differ."""


def require_same(one: Fingerprint, other: Fingerprint, first: str, second: str) -> None:
    """Raises Mismatch naming the fields that both sides tell and that differ."""
    differing = [
        f"{name} ({_shown(one[name])} and {_shown(other[name])})"
        for name in one
        if name in other and None not in (one[name], other[name]) and not _equal(one[name], other[name])
    ]
    if differing:
        raise Mismatch(
            f"{first} and {second} differ in {', '.join(differing)}: a policy trained so is not the one served"
        )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) < 1e-6
    return bool(one == other)


def _shown(value: Any) -> str:
    return str(value)[:20]
