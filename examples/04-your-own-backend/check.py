"""Runs the conformance suite over the backend `house`, as it was found through its entry point."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from backends import SandboxSpec, create_provider
from backends.conformance import run_checks


async def main() -> int:
    """Print how each check ended; 1 if one failed."""
    provider = create_provider("house")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")

        def make_spec(**fields: Any) -> SandboxSpec:
            return SandboxSpec(**{"build_dir": Path(folder), **fields})

        results = await run_checks(provider, make_spec)
    await provider.close()
    for result in results:
        print("FAILED" if result.error else "skipped" if result.skipped else "passed", result.name, result.error or "")
    return int(any(result.error for result in results))


raise SystemExit(asyncio.run(main()))
