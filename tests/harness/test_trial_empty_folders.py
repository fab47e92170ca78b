"""The verifier's folders are made anew, whatever the agent put in their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_boxes import local_provider, plain_spec

from backends.lifecycle import open_sandbox
from harness.trial.verifier import TESTS, VERDICT, empty_script


@pytest.mark.parametrize("attack", ["echo 1 >/logs", "ln -s /tmp /logs", "mkfifo /logs", "mkdir /logs; chmod 0 /logs"])
async def test_whatever_stands_in_place_of_the_logs_gives_way(tmp_path: Path, attack: str) -> None:
    async with local_provider() as provider, open_sandbox(provider, plain_spec(tmp_path)) as sandbox:
        await sandbox.execute(f"rm -rf /logs; {attack}", timeout=10)
        done = await sandbox.execute(empty_script((TESTS, VERDICT)), timeout=10)
        assert (done.exit_code, done.output) == (0, "")
