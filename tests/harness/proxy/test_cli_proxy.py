"""`harness proxy` as a user starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from proxied import plain_client

from harness.cli.main import main
from harness.cli.upstream import weighted

REPO = Path(__file__).parents[3]
SCRIPT = 'on_end = "repeat"\n[[replies]]\ntext = "hello"\nprompt_tokens = 3\ncompletion_tokens = 1\n'


async def test_it_serves_a_script_until_it_is_interrupted_and_says_what_was_done(tmp_path: Path) -> None:
    script, out = tmp_path / "replies.toml", tmp_path / "out"
    script.write_text(SCRIPT)
    argv = [sys.executable, "-m", "harness.cli.main", "proxy", "--script", str(script), "-o", str(out)]
    started = subprocess.Popen(argv, cwd=REPO, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."})
    assert started.stdout is not None
    found = re.search(r"OPENAI_BASE_URL=(\S+) OPENAI_API_KEY=(\S+)", started.stdout.readline())
    assert found
    body = {"messages": [{"role": "user", "content": "hi"}]}
    async with plain_client() as client:
        headers = {"authorization": f"Bearer {found[2]}"}
        answer: httpx.Response = await client.post(f"{found[1]}/chat/completions", json=body, headers=headers)
    assert answer.json()["choices"][0]["message"]["content"] == "hello"
    started.send_signal(signal.SIGINT)
    rest, _ = started.communicate(timeout=20)
    assert started.returncode == 0
    assert "1 answers, 4 tokens" in rest
    document = (out / "trajectory.json").read_text()
    assert [step["message"] for step in json.loads(document)["steps"]] == ["hi", "hello"]
    assert found[2] not in document


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "say who answers, by one of --upstream URL, --script FILE and --replay FILE"),
        (["--upstream", "gpu:1"], "an address begins with http:// or https://"),
        (["--upstream", "http://"], "an address begins with http:// or https://"),
        (["--upstream", "http://x:99999/v1"], "an address begins with http:// or https://"),
        (["--upstream", "http://x/v1=0"], "a weight is above 0"),
        (["--upstream", "http://x/v1", "--api-key-env", "NO_SUCH_KEY"], "names NO_SUCH_KEY, which is not set"),
        (["--upstream", "http://x/v1", "--host", "0.0.0.0"], "does not listen on every address"),
        (["--replay", "no-such-file"], "cannot read no-such-file"),
        (["--upstream", "http://x/v1", "--out", __file__], "cannot be made into a folder: File exists"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", *argv]) == 2
    error = capsys.readouterr().err
    assert line in error and len(error.splitlines()) == 1


def test_a_proxy_that_could_not_start_leaves_no_tape_in_the_way_of_the_next_try(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    argv = ["proxy", "--upstream", "http://x/v1", "--record", str(tape)]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main([*argv, "--port", str(taken.getsockname()[1])]) == 2
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "trajectory.json").touch()
    assert main([*argv, "--out", str(tmp_path / "out")]) == 2
    assert not tape.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://gpu:8000/v1", ("http://gpu:8000/v1", 1.0)),
        ("http://gpu:8000/v1=2.5", ("http://gpu:8000/v1", 2.5)),
        ("http://gpu:8000/v1?a=b=2", ("http://gpu:8000/v1?a=b", 2.0)),
        ("http://gpu:8000/v1?a=b", ("http://gpu:8000/v1?a=b", 1.0)),
    ],
)
def test_a_weight_is_what_follows_the_last_equals_sign(text: str, expected: tuple[str, float]) -> None:
    assert weighted([text]) == dict([expected])
