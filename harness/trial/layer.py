"""A layer where the backend's images have none: installed once in a sandbox of its own, kept on this machine as an
archive of its folders, and unpacked into every sandbox of that image.

Archives lie in `$XDG_CACHE_HOME/harness/layers` (or `~/.cache/harness/layers`), named by image and layer.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from backends.errors import SandboxLayerError
from backends.exclusive import cache_folder, exclusive
from backends.lifecycle import finish
from backends.protocol import SandboxBackendProtocol, SandboxProvider
from backends.spec import Layer, NetworkMode, SandboxSpec
from harness.task.digest import folder_digest
from harness.trial.limits import TrialLimits

_MAX_BYTES = 4 << 30
_MAX_WORDS = 400
_ARCHIVE = "/tmp/.harness-layer.tar.gz"  # noqa: S108 – inside the sandbox


async def kept_layer(provider: SandboxProvider, request: SandboxSpec, layer: Layer, limits: TrialLimits) -> Path:
    """The archive of a layer on the requested image, made at first use, once for all who wait for it.

    Raises SandboxLayerError when it cannot be installed, and SandboxError when its sandbox fails.
    """
    key = _key(provider.name, request, layer)
    path = _folder() / f"{key}.tar.gz"
    async with exclusive(path.parent, key):
        if not path.is_file():
            await _make(provider, request, layer, path, limits)
    return path


async def put_layer(sandbox: SandboxBackendProtocol, archive: Path, *, timeout: float) -> None:
    """Unpack an archive. Raises SandboxLayerError where the sandbox cannot."""
    await sandbox.upload(archive, _ARCHIVE)
    root = "root" if sandbox.capabilities.users else None
    command = f"tar -xzf {_ARCHIVE} -C / --no-same-owner; code=$?; rm -f {_ARCHIVE}; exit $code"
    response = await sandbox.execute(command, timeout=timeout, cwd="/", user=root)
    if response.exit_code != 0:
        raise _failed(sandbox, "the agent could not be unpacked", response.output)


async def _make(provider: SandboxProvider, request: SandboxSpec, layer: Layer, path: Path, limits: TrialLimits) -> None:
    box = await provider.start(replace(request, network=NetworkMode.FULL, layer=None, env={}))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        await _install(box, layer)
        await box.download(_ARCHIVE, draft, max_bytes=_MAX_BYTES)
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        await finish(box.stop(), timeout=limits.stop)


async def _install(box: SandboxBackendProtocol, layer: Layer) -> None:
    root = "root" if box.capabilities.users else None
    place = f"/tmp/.harness-layer-{secrets.token_hex(4)}"  # noqa: S108 – inside the sandbox
    await box.write(f"{place}/install.sh", layer.script.encode())
    for name, source in layer.files.items():
        await box.write(f"{place}/{name}", await asyncio.to_thread(source.read_bytes))
    folders = shlex.join(each.lstrip("/") for each in layer.folders)
    command = (
        f"cd {place} || exit 1\n"
        "sh -e ./install.sh </dev/null >out 2>&1; code=$?; tail -c 4000 out; [ $code = 0 ] || exit $code\n"
        f"rm -rf {place}; tar -czf {_ARCHIVE} -C / {folders} && chmod 644 {_ARCHIVE}"
    )
    response = await box.execute(command, timeout=layer.timeout_sec, env=layer.env, cwd="/", user=root)
    if response.exit_code != 0:
        why = f"no end after {layer.timeout_sec:g} s" if response.timed_out else response.output
        raise _failed(box, f"{layer.name} could not be installed", why)


def _failed(sandbox: SandboxBackendProtocol, what: str, output: str) -> SandboxLayerError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return SandboxLayerError(
        f"{what}: {lines[-1][:_MAX_WORDS] if lines else 'it said nothing'}",
        log=output,
        backend=sandbox.backend,
        operation="install",
        sandbox_id=sandbox.id,
    )


def _key(backend: str, request: SandboxSpec, layer: Layer) -> str:
    image = request.image if request.build_dir is None else folder_digest(request.build_dir)
    return hashlib.sha256(f"{backend}\0{image}\0{layer.digest}".encode()).hexdigest()[:40]


def _folder() -> Path:
    return cache_folder().with_name("layers")
