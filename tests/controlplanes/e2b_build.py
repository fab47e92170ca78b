"""Templates of the loopback E2B: uploaded files and steps, really carried out in every box made from them."""

from __future__ import annotations

import asyncio
import io
import posixpath
import secrets
import shlex
import tarfile
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import Template as Expansion
from typing import Any

from controlplanes.localbox import Box

from backends.errors import SandboxError


class StepFailed(Exception):
    """A step that did not work, with what it wrote."""


@dataclass
class Template:
    """One template, from the request on; `status` is what its build has come to."""

    id: str
    alias: str
    request: dict[str, Any]
    build_id: str = field(default_factory=lambda: secrets.token_hex(8))
    status: str = "waiting"
    reason: str | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)
    image: str = ""
    log: list[dict[str, str]] = field(default_factory=list)
    user: str = "root"
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)

    def say(self, message: str) -> None:
        self.log.append({"timestamp": datetime.now(UTC).isoformat(), "message": message, "level": "info"})


async def build(template: Template, uploads: dict[str, bytes]) -> None:
    """Carry the steps out once, in a box that is thrown away, and note how it went."""
    template.status = "building"
    template.say(f"FROM {template.image}")
    try:
        if "missing" in template.image:
            raise StepFailed(f"failed to pull {template.image}")
        box = await make_box(template, uploads, network=False)
        await box.stop()
        template.status = "ready"
    except (StepFailed, SandboxError, OSError) as failure:
        template.say(str(failure))
        template.reason = str(failure)
        template.status = "error"


async def make_box(template: Template, uploads: dict[str, bytes], *, network: bool) -> Box:
    """A box as the template says. Raises StepFailed."""
    box = await Box.start(network=network)
    try:
        await _carry_out(template, uploads, box)
    except BaseException:
        await box.stop()
        raise
    return box


async def _carry_out(template: Template, uploads: dict[str, bytes], box: Box) -> None:
    env: dict[str, str] = {}
    workdir, user = "/", "user"
    for step in template.steps:
        args = step["args"]
        match step["type"]:
            case "ENV":
                env |= dict(zip(args[::2], args[1::2], strict=True))
            case "WORKDIR":
                workdir = posixpath.join(workdir, Expansion(args[0]).safe_substitute(env))
                await box.files.execute(f"mkdir -p {shlex.quote(workdir)}", timeout=10, cwd="/")
            case "USER":
                user = args[0]
            case "COPY":
                await _copy(uploads[step["filesHash"]], args[0], posixpath.join(workdir, args[1]), args[3], box)
            case "RUN":
                code, out, err = await box.run(["/bin/bash", "-l", "-c", args[0]], env=env, cwd=workdir).communicate()
                if code != 0:
                    raise StepFailed(
                        f"{args[0]!r} failed with exit code {code}: {(out + err).decode(errors='replace')}"
                    )
    template.env, template.workdir, template.user = env, workdir, user


async def _copy(archive: bytes, source: str, target: str, mode: str, box: Box) -> None:
    """As COPY has it: a folder's contents, or a file, which keeps its name below a folder."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            await asyncio.to_thread(tar.extractall, folder, filter="data")
        found = sorted(Path(folder).glob(source.strip("/") or ".")) or [Path(folder)]
        for path in found:
            into = target.endswith("/") or len(found) > 1
            place = posixpath.join(target, path.name) if path.is_file() and into else target
            await box.files.upload(path, place)
            if mode:
                await box.files.chmod(place, int(mode, 8))
