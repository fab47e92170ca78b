"""From what a task says of its environment to what a backend is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from backends.spec import SandboxSpec
from harness.task.env import resolve_env
from harness.task.model import Environment

LOG_DIRECTORIES = ("/logs/agent", "/logs/artifacts")
"""What the agent may write. The verifier's folder is not among them: it appears with verification."""


def sandbox_spec(
    environment: Environment,
    *,
    labels: Mapping[str, str],
    ttl_sec: float,
    host_env: Mapping[str, str],
    allow_unsafe: bool = False,
) -> SandboxSpec:
    """The sandbox that `environment` describes.

    Raises TaskInvalid for a variable that the host does not set. The values taken from the host are secrets; get
    them for redaction from `resolve_env(environment.env, host_env).secrets`.
    """
    directories = LOG_DIRECTORIES if environment.workdir is None else (*LOG_DIRECTORIES, environment.workdir)
    return SandboxSpec(
        image=environment.image,
        build_dir=environment.build_dir,
        workdir=environment.workdir,
        env=resolve_env(environment.env, host_env).values,
        resources=environment.resources,
        network=environment.network,
        directories=directories,
        ttl_sec=ttl_sec,
        build_timeout_sec=environment.build_timeout.value,
        labels=dict(labels),
        allow_unsafe=allow_unsafe,
    )
