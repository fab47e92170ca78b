"""A real PostgreSQL server for tests: its own cluster in a temporary folder, on a loopback port, as a plain user."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START_SEC = 30.0


def binaries() -> Path | None:
    """Where the server's programs are; None where it is not installed."""
    found = [Path(each).resolve().parent for each in [shutil.which("postgres")] if each]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a new server, which is gone when the block ends."""
    programs = binaries()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    data = folder / "data"
    user = _plain_user(folder)
    try:
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "harness", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"],
            check=True,
            capture_output=True,
            **user,
        )
        port = _free_port()
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, "-p", str(port), *options], stdout=log, stderr=log, **user
            )
        try:
            _wait(server, port, folder / "log")
            yield f"postgresql://harness@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    finally:
        shutil.rmtree(folder)


def _plain_user(folder: Path) -> dict[str, Any]:
    """Root may not run the server; anybody else runs it as himself."""
    if os.geteuid() != 0:
        return {}
    names = {each.pw_name for each in pwd.getpwall()}
    plain = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, plain.pw_uid, plain.pw_gid)
    return {"user": plain.pw_uid, "group": plain.pw_gid, "extra_groups": [], "cwd": folder}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SEC
    while b"ready to accept connections" not in log.read_bytes():
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
