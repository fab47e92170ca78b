"""The docker backend: starts, lists and removes containers of one engine."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from backends.docker.container import READY, container_config, container_name, default_user
from backends.docker.engine import Engine, address
from backends.docker.errors import NAME
from backends.docker.images import Image, Images
from backends.docker.sandbox import DockerSandbox, remove
from backends.errors import SandboxError, SandboxImageNotFound, SandboxStartError, SandboxTimeout, SandboxUnsupported
from backends.lifecycle import OWNER, finish
from backends.posix import absolute
from backends.protocol import Capabilities, Readiness
from backends.spec import NetworkMode, SandboxInfo, SandboxSpec

CAPABILITIES = Capabilities(
    networks=frozenset(NetworkMode),
    users=True,
    images=True,
    dockerfiles="any",
    memory_limit=True,
    gpus=True,
    isolation="container",
    layers=True,
)
_CLEANUP_SEC = 30.0


class DockerProvider:
    """Sandboxes of the engine at `host`, by default the one that the docker command would use.

    `disk_mb` is enforced only where the engine's storage can (overlay2 on xfs with project quotas, btrfs, zfs);
    elsewhere it is ignored. The full network is the engine's default bridge.
    """

    name = NAME
    capabilities = CAPABILITIES

    def __init__(self, *, host: str | None = None) -> None:
        self._engine = Engine(address(host))
        self._images = Images(self._engine)
        self._limits_disk = True
        self._bridge: str | None = None

    async def check(self) -> Readiness:
        """See SandboxProvider."""
        url = self._engine.url
        try:
            async with self._engine.call("version", timeout=10) as client:
                found = await client.version()
        except SandboxError as error:
            return Readiness(
                works=False, isolation="container", detail=f"no Docker engine answers at {url}", fix=_fix(url, error)
            )
        return Readiness(
            works=True, isolation="container", detail=f"Docker engine {found.get('Version', '?')} at {url}"
        )

    async def start(self, spec: SandboxSpec) -> DockerSandbox:
        """See SandboxProvider."""
        image = await self._images.ensure(spec)
        try:
            return await self._start(spec, image)
        except SandboxImageNotFound:
            self._images.forget(image)
            return await self._start(spec, await self._images.ensure(spec))

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """See SandboxProvider."""
        wanted = [OWNER, *(f"{key}={value}" for key, value in (labels or {}).items())]
        async with self._engine.call("list") as client:
            found = await client._query_json(
                "containers/json", params={"all": "1", "filters": json.dumps({"label": wanted})}
            )
        return [
            SandboxInfo(id=item["Id"], backend=NAME, labels=item["Labels"], created_at=float(item["Created"]))
            for item in found
        ]

    async def remove(self, sandbox_id: str) -> None:
        """See SandboxProvider."""
        await remove(self._engine, sandbox_id)

    async def close(self) -> None:
        """See SandboxProvider."""
        self._images.close()
        await self._engine.close()

    async def _start(self, spec: SandboxSpec, image: Image) -> DockerSandbox:
        name = container_name(spec.labels)
        workdir = absolute(spec.workdir or image.workdir, "/")
        host_address = await self._gateway(spec)
        creation = asyncio.create_task(self._create(spec, image, name, workdir))
        try:
            async with asyncio.timeout(spec.start_timeout_sec) as deadline:
                container_id = await asyncio.shield(creation)
                await self._boot(container_id)
        except BaseException as error:
            await finish(self._discard(creation, name), timeout=_CLEANUP_SEC)
            if isinstance(error, TimeoutError) and deadline.expired():
                raise SandboxTimeout(
                    f"the sandbox had not started after {spec.start_timeout_sec:g} s", backend=NAME, operation="start"
                ) from error
            raise
        return DockerSandbox(
            self._engine,
            container_id,
            name=name,
            workdir=workdir,
            user=default_user(spec, image),
            capabilities=CAPABILITIES,
            host_address=host_address,
        )

    async def _gateway(self, spec: SandboxSpec) -> str | None:
        """The bridge's own address, where the engine runs on this very host."""
        if spec.network is not NetworkMode.FULL or not self._engine.url.startswith("unix://"):
            return None
        if self._bridge is None:
            async with self._engine.call("network") as client:
                networks = await client._query_json("networks")
            configs = [
                each for found in networks if found["Name"] == "bridge" for each in found["IPAM"]["Config"] or ()
            ]
            gateways = (each.get("Gateway") for each in configs)
            self._bridge = next((gateway for gateway in gateways if gateway and _is_here(gateway)), "")
        return self._bridge or None

    async def _create(self, spec: SandboxSpec, image: Image, name: str, workdir: str) -> str:
        try:
            return await self._post_create(
                container_config(spec, image, workdir, limit_disk=self._limits_disk), name, spec
            )
        except SandboxUnsupported as error:
            if spec.resources.disk_mb is None or not self._limits_disk or "storage-opt" not in str(error):
                raise
            self._limits_disk = False
            return await self._post_create(container_config(spec, image, workdir, limit_disk=False), name, spec)

    async def _post_create(self, config: dict[str, Any], name: str, spec: SandboxSpec) -> str:
        async with self._engine.call("create", timeout=spec.start_timeout_sec) as client:
            return str((await client.containers.create(config, name=name)).id)

    async def _boot(self, container_id: str) -> None:
        """Start the container and wait until its first process has made the directories."""
        async with self._engine.call("start", timeout=_START_CALL_SEC, sandbox_id=container_id) as client:
            container = client.containers.container(container_id)
            async with container.attach(stdout=True, stderr=True) as output:
                await container.start()
                said = b""
                while (message := await output.read_out()) is not None:
                    said += message.data
                    if said.endswith(READY):
                        return
        raise SandboxStartError(
            f"the sandbox ended while it was being prepared: {said[-300:].decode('utf-8', 'replace').strip()}",
            backend=NAME,
            operation="start",
            sandbox_id=container_id,
        )

    async def _discard(self, creation: asyncio.Task[str], name: str) -> None:
        """Remove what a failed start may have made, found by its name even if the engine never answered."""
        await asyncio.wait({creation}, timeout=_CLEANUP_SEC / 2)
        if not creation.done():
            creation.cancel()
        await asyncio.gather(creation, return_exceptions=True)
        with suppress(SandboxError):
            await remove(self._engine, name)


def _is_here(address: str) -> bool:
    """Whether this machine has the address: an engine in a virtual machine has its bridge there."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


_START_CALL_SEC = 600.0


def _fix(url: str, error: SandboxError) -> str:
    text = f"{error} {error.__cause__}".lower()
    if not url.startswith("unix://"):
        return f"check that DOCKER_HOST or the docker context names a running engine (now {url})"
    if "permission denied" in text:
        return "let this user reach the socket: sudo usermod -aG docker $USER, then log in again"
    return "start the engine (sudo systemctl start docker, or sudo dockerd &), or set DOCKER_HOST to where it listens"
