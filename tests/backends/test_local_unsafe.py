"""Where namespaces are forbidden: refused, unless unsafe sandboxes were allowed, and then honest about it."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends import SandboxSpec, SandboxUnsupported, create_provider
from backends.local import namespaces

OWN = f"/tmp/harness-unsafe-test-{os.getpid()}"  # the one place on the host that these tests let a sandbox make


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxSpec:
    from backends.local import provider

    monkeypatch.setattr(provider, "STANDARD", ())
    (tmp_path / "Dockerfile").write_text(f"FROM debian\nWORKDIR {OWN}/app\n")
    return SandboxSpec(build_dir=tmp_path, allow_unsafe=True)


async def test_without_permission_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\n")
    provider = create_provider("local", isolation="none")
    readiness = await provider.check()
    assert (readiness.works, readiness.isolation) == (False, "none")
    assert readiness.fix
    with pytest.raises(SandboxUnsupported, match="--backend docker") as caught:
        await provider.start(SandboxSpec(build_dir=tmp_path))
    assert "\n" not in str(caught.value)


async def test_deadlines_background_children_and_clean_up_still_hold(spec: SandboxSpec) -> None:
    provider = create_provider("local", isolation="none")
    assert provider.capabilities.isolation == "none"
    sandbox = await provider.start(spec)
    try:
        assert sandbox.capabilities.isolation == "none"
        assert (await sandbox.execute("pwd; echo x >kept", timeout=10)).output == f"{OWN}/app"
        await sandbox.execute("setsid sleep 8660.5 & sleep 8661.5 &", timeout=10)
        response = await sandbox.execute("echo first; setsid sleep 8662.5 & env -i setsid sleep 8662.5", timeout=0.5)
        assert (response.stdout, response.timed_out, response.exit_code) == (b"first\n", True, None)
        assert (sleeps("8660.5"), sleeps("8661.5"), sleeps("8662.5")) == (1, 1, 0)
        await sandbox.kill_processes()
        assert (sleeps("8660.5"), sleeps("8661.5")) == (0, 0)
        assert await sandbox.read("kept") == b"x\n"
        await sandbox.execute("sleep 8663.5 &", timeout=10)
    finally:
        await sandbox.stop()
    assert sleeps("8663.5") == 0
    assert not Path(OWN).exists()


async def test_the_harness_s_environment_stays_out(spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "canary")
    sandbox = await create_provider("local", isolation="none").start(spec)
    try:
        assert "canary" not in (await sandbox.execute("env", timeout=10)).output
    finally:
        await sandbox.stop()


async def test_only_one_lives_at_a_time_because_paths_are_shared(spec: SandboxSpec) -> None:
    provider = create_provider("local", isolation="none")
    first = await provider.start(spec)
    waiting = asyncio.create_task(provider.start(spec))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await first.stop()
    second = await asyncio.wait_for(waiting, 5)
    assert Path(OWN, "app").is_dir()
    await second.stop()
    assert not Path(OWN).exists()


def test_the_probe_finds_namespaces_or_says_why_not() -> None:
    found = namespaces.probe()
    assert found.isolation is not namespaces.Isolation.NONE or found.reasons


def sleeps(seconds: str) -> int:
    listing = subprocess.run(["ps", "axo", "stat,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 1) for line in listing.splitlines()]
    return sum(1 for row in rows if len(row) == 2 and row[1].startswith(f"sleep {seconds}") and row[0][0] != "Z")


def elsewhere(build: Path, call: str, code: int, isolation: str) -> subprocess.CompletedProcess[str]:
    """Where the kernel answers `call` with `code`: what a check says, and then a command in an unsafe sandbox."""
    program = f"""
import asyncio
import seccomp
seccomp.refuse({call!r}, {code})
from pathlib import Path
from backends import SandboxSpec, create_provider, open_sandbox
from backends.local import provider
provider.STANDARD = ()

async def main():
    print(await create_provider("local").check())
    spec = SandboxSpec(build_dir=Path({str(build)!r}), allow_unsafe=True)
    async with open_sandbox(create_provider("local", isolation={isolation!r}), spec) as sandbox:
        print((await sandbox.execute("echo a command ran", timeout=30)).output)

asyncio.run(main())
"""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *(each for each in sys.path if each)])
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_commands_run_in_a_container_that_forbids_clone3(spec: SandboxSpec, isolation: str) -> None:
    assert spec.build_dir is not None
    done = elsewhere(spec.build_dir, "clone3", errno.ENOSYS, isolation)
    assert "a command ran" in done.stdout, done.stderr


def test_a_kernel_whose_namespaces_cannot_be_entered_is_told_and_runs_unsafe_sandboxes(spec: SandboxSpec) -> None:
    assert spec.build_dir is not None
    done = elsewhere(spec.build_dir, "setns", errno.EINVAL, "auto")
    assert "works=False" in done.stdout, done.stderr
    assert "Linux 5.8 or newer" in done.stdout
    assert "a command ran" in done.stdout
