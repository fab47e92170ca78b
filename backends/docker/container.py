"""What a sandbox's container is made of: its name, its first process, its limits."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping
from typing import Any

from backends import frame
from backends.docker.images import Image
from backends.lifecycle import JOB, OWNER, TRIAL, owner_label
from backends.spec import NetworkMode, SandboxSpec

DEFAULT_PIDS = 1024
READY = b"ready\n"

# PID 1 outlives whatever `kill -9 -1` ends, reaps what has lost its parent, and ends the container when its time is
# up, whether or not the harness still lives. USR1 restarts the clock.
INIT = """
ttl=$1 mode=$2
shift 2
now() { read -r up _ </proc/uptime; up=${up%%.*}; }
renew() { now; end=$((up + ttl)); }
trap 'renew; kill $!' USR1
trap '' INT
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
mkdir -p -m 1777 __DIRECTORY__ && chmod 1777 __DIRECTORY__ || exit 1
for f; do
  mkdir -p "$f" || exit 1
  [ -z "$mode" ] || chmod "$mode" "$f" || exit 1
done
renew
echo ready
exec </dev/null >/dev/null 2>&1
while now; [ "$up" -lt "$end" ]; do sleep $((end - up)) & wait $!; done
""".replace("__DIRECTORY__", frame.DIRECTORY)

_DROPPED = ["AUDIT_WRITE", "MKNOD", "NET_RAW"]


def container_name(labels: Mapping[str, str]) -> str:
    """A legal, unique name of at most 63 characters that shows where the container comes from."""
    shown = "-".join(labels[key] for key in (JOB, TRIAL) if labels.get(key))
    slug = re.sub(r"[^a-z0-9]+", "-", shown.lower()).strip("-")[:36].rstrip("-")
    return "-".join(part for part in ("harness", slug, secrets.token_hex(6)) if part)


def container_config(spec: SandboxSpec, image: Image, workdir: str, *, limit_disk: bool) -> dict[str, Any]:
    """The body of the engine's create call."""
    resources = spec.resources
    host: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": "none" if spec.network is NetworkMode.NONE else "default",
        "PidsLimit": resources.pids or DEFAULT_PIDS,
        "SecurityOpt": ["no-new-privileges"],
        "CapDrop": _DROPPED,
        "LogConfig": {"Type": "none"},
    }
    if resources.memory_mb is not None:
        host["Memory"] = host["MemorySwap"] = resources.memory_mb << 20
    if resources.cpus is not None:
        host["NanoCpus"] = int(resources.cpus * 1e9)
    if resources.disk_mb is not None and limit_disk:
        host["StorageOpt"] = {"size": f"{resources.disk_mb}m"}
    if resources.gpus:
        host["DeviceRequests"] = [{"Count": resources.gpus, "Capabilities": [["gpu"]]}]
    mode = "" if default_user(spec, image) in ("", "0", "root") else "777"
    return {
        "Image": image.id,
        "Entrypoint": ["/bin/sh", "-c", INIT, "harness"],
        "Cmd": [str(math.ceil(spec.ttl_sec)), mode, workdir, *spec.directories],
        "User": "0:0",
        "WorkingDir": "/",
        "StopSignal": "SIGKILL",  # any signal that it obeyed could be sent to it from inside
        "Env": [f"{name}={value}" for name, value in spec.env.items()],
        "Labels": {OWNER: owner_label(), **spec.labels},
        "AttachStdout": True,
        "AttachStderr": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }


def default_user(spec: SandboxSpec, image: Image) -> str:
    """Who runs the commands that name nobody; empty for root."""
    return spec.user if spec.user is not None else image.user
