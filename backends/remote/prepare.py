"""The first request to a new sandbox: its folders are made, and what runs in it before any command is noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backends import frame
from backends.errors import SandboxStartError
from backends.remote.channel import Channel
from backends.remote.processes import SNAPSHOT

_TIMEOUT_SEC = 60.0
_READY = "ready"

_SCRIPT = (
    SNAPSHOT
    + """
mode=$1
shift
mkdir -p -m 1777 __DIRECTORY__ && chmod 1777 __DIRECTORY__ || exit 1
for d; do
  mkdir -p "$d" || exit 1
  [ -z "$mode" ] || chmod "$mode" "$d" || exit 1
done 2>&1
echo __READY__
id -un
pwd
""".replace("__DIRECTORY__", frame.DIRECTORY).replace("__READY__", _READY)
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a sandbox said of itself: who its commands are and where they start, and the provider's own processes."""

    user: str
    directory: str
    spared: str


async def prepare(channel: Channel, directories: Sequence[str], *, admin: str | None, shared: bool) -> Prepared:
    """Make `directories`, for everybody to write where `shared`. Raises SandboxStartError with what the tools wrote."""
    request = frame.Request(
        argv=("/bin/sh", "-c", 'eval "$HX_RUN"', "harness", "777" if shared else "", *directories),
        env={"HX_RUN": _SCRIPT},
        limit=1 << 20,
    )
    reply = await channel.run(request, user=admin, timeout=_TIMEOUT_SEC)
    text = reply.data.decode("utf-8", "replace")
    spared, ready, rest = text.partition(f"\n{_READY}\n")
    user, _, directory = rest.partition("\n")
    if not ready:
        raise SandboxStartError(
            f"the sandbox could not be prepared: {' '.join(text[-300:].split()) or 'no reply from its shell'}",
            operation="start",
            sandbox_id=channel.id,
        )
    return Prepared(user=user.strip() or "root", directory=directory.removesuffix("\n") or "/", spared=spared)
