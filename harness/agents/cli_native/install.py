"""An agent's program as a layer: its install script, and what of this machine's settings it needs to download."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

from backends.spec import Layer
from harness.agents.cli_native.config import CliConfig
from harness.errors import UsageError
from harness.redaction import is_secret_name

PREFIX = "/opt/harness-agent"
"""Where the program lies in a sandbox."""

_CA_FILE = "ca.crt"


def layer(config: CliConfig, name: str, host_env: Mapping[str, str] = os.environ) -> Layer | None:
    """What to install; None for a program without an install script. Raises UsageError for a missing CA bundle."""
    install = config.install
    if not install.script.strip():
        return None
    functions = files("harness.agents.cli_native").joinpath("install.sh").read_text(encoding="utf-8")
    head = f"VERSION={shlex.quote(config.version)} PREFIX={PREFIX}\n"
    bundle = _ca_bundle(config.ca_bundle, name, host_env)
    return Layer(
        name=f"{name} {config.version}",
        script=f"{head}{functions}\n{install.script}\n",
        folders=(PREFIX,),
        env={**passed_on(install.pass_env, host_env), **install.env},
        files={_CA_FILE: bundle} if bundle else {},
        timeout_sec=install.timeout_sec,
    )


def passed_on(patterns: tuple[str, ...], host_env: Mapping[str, str]) -> dict[str, str]:
    """The host's variables that fit, without secrets and without what means something on this machine only."""
    return {
        name: value
        for name, value in host_env.items()
        if name.isidentifier()
        and any(fnmatchcase(name, pattern) for pattern in patterns)
        and not is_secret_name(name)
        and not any(word.startswith(("/", "~", "file:")) for word in value.split())
    }


def _ca_bundle(named: Path | None, name: str, host_env: Mapping[str, str]) -> Path | None:
    if named is not None:
        bundle = named.expanduser()
        if not bundle.is_file():
            raise UsageError(f"agent {name!r}: ca_bundle: there is no file {bundle}")
        return bundle
    found = host_env.get("SSL_CERT_FILE", "")
    return Path(found) if found and Path(found).is_file() else None
