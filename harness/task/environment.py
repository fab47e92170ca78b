"""From `[environment]` to the `Environment` that a sandbox is made of, with the origin of every limit."""

from __future__ import annotations

import math
import re
from pathlib import Path

from backends.spec import NetworkMode, Resources
from harness.errors import TaskInvalid, TaskUnsupported
from harness.task.config import EnvironmentTable, HealthcheckTable, NetworkTable
from harness.task.env import TEMPLATE
from harness.task.model import Environment, Finding, Healthcheck, Limit, Origin

COMPOSE = re.compile(r"docker-compose\.ya?ml")
DEFAULT_BUILD_SEC = 600.0


def build_environment(
    table: EnvironmentTable, *, place: str, image: str | None, folder: Path, network: NetworkMode
) -> Environment:
    """One environment: from `image` if the task names one, else from the Dockerfile in `folder`.

    Args:
        table: the limits and variables.
        place: the table's name, for messages.
        image: a ready image.
        folder: where the Dockerfile is; services described there are never dropped silently, even next to an image.
        network: what `network_of` made of this table and of the phases that run in it.

    Raises TaskUnsupported for what no backend here can give, TaskInvalid for contradictions.
    """
    _refuse_unsupported(table, place, folder)
    memory_mb = _one_size(table.memory_mb, table.memory, f"{place} memory")
    disk_mb = _one_size(table.storage_mb, table.storage, f"{place} storage")
    if image is None and not (folder / "Dockerfile").is_file():
        raise TaskInvalid(f"{folder.name}/Dockerfile is missing, and {place} names no docker_image")
    declared: dict[str, object] = {
        "cpus": table.cpus,
        "memory_mb": memory_mb,
        "disk_mb": disk_mb,
        "gpus": table.gpus,
        "network": table.network_mode if table.network_mode is not None else table.allow_internet,
    }
    origins: dict[str, Origin] = {key: "default" if value is None else "task" for key, value in declared.items()}
    return Environment(
        image=image,
        build_dir=None if image is not None else folder,
        workdir=table.workdir,
        env=table.env,
        network=network,
        # No GPU is what every backend gives anyway: asking for 0 must not need a backend that has GPUs.
        resources=Resources(cpus=table.cpus, memory_mb=memory_mb, disk_mb=disk_mb, gpus=table.gpus or None),
        build_timeout=limit_of(table.build_timeout_sec, DEFAULT_BUILD_SEC),
        healthcheck=build_healthcheck(table.healthcheck),
        origins=origins,
    )


def build_healthcheck(table: HealthcheckTable | None) -> Healthcheck | None:
    """The check that a table describes."""
    return None if table is None else Healthcheck(**table.model_dump())


def limit_of(declared: float | None, default: float) -> Limit:
    """What the task declares, or the default and known to be one."""
    return Limit(value=default, origin="default") if declared is None else Limit(value=float(declared), origin="task")


def network_of(table: NetworkTable, place: str) -> NetworkMode | None:
    """What a table asks of the network; None if it does not say. Raises TaskUnsupported for a list of hosts."""
    if table.network_mode == "allowlist":
        raise TaskUnsupported(f"{place} allows a list of hosts only, which cannot be enforced here")
    if table.allowed_hosts:
        raise TaskInvalid(f"{place} has allowed_hosts, but network_mode is not 'allowlist'")
    if table.network_mode is not None:
        return NetworkMode.FULL if table.network_mode == "public" else NetworkMode.NONE
    if isinstance(table, EnvironmentTable) and table.allow_internet is not None:
        return NetworkMode.FULL if table.allow_internet else NetworkMode.NONE
    return None


def environment_findings(table: EnvironmentTable, place: str) -> list[Finding]:
    """What loads, but does not do what its author may think."""
    found: list[tuple[str, str]] = []
    if table.gpu_types:
        found.append(("gpu_types", "the kind of GPU is not checked; any GPU that the backend has will do"))
    for name, value in table.env.items():
        if "${" in value and not TEMPLATE.fullmatch(value):
            found.append((f"env.{name}", "a ${VAR} inside a longer value is passed on as it stands"))
    return [Finding(path="task.toml", key=f"{place}.{key}", message=message) for key, message in found]


def _refuse_unsupported(table: EnvironmentTable, place: str, folder: Path) -> None:
    system = (table.os or "linux").lower()
    if system not in ("linux", "windows"):
        raise TaskInvalid(f"{place} os must be 'linux' or 'windows', not {system[:40]!r}")
    if system == "windows":
        raise TaskUnsupported(f"{place} asks for Windows; only Linux sandboxes exist here")
    if table.tpu is not None:
        raise TaskUnsupported(f"{place} asks for a TPU, which no backend here has")
    if table.mcp_servers:
        raise TaskUnsupported(f"{place} gives the agent MCP servers, which no agent here can use")
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if COMPOSE.fullmatch(path.name):
                raise TaskUnsupported(f"{folder.name}/{path.name} describes services; a sandbox here is one container")


def _one_size(in_mb: float | None, spelt: float | None, place: str) -> int | None:
    if in_mb is not None and spelt is not None and in_mb != spelt:
        raise TaskInvalid(f"{place} is given twice, as {spelt:g} MB and as {in_mb:g} MB")
    size = in_mb if in_mb is not None else spelt
    return None if size is None else math.ceil(size)
