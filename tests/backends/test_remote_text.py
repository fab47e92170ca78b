"""A framed request on its way through an SDK that knows only text."""

from __future__ import annotations

import subprocess

import pytest

from backends import frame
from backends.errors import SandboxError
from backends.remote import text

TOKEN = "0123456789abcdef"


def carried(request: frame.Request, *, profile: str = "", stdin_path: str | None = None) -> str:
    line, env = text.line(request, TOKEN, stdin_path=stdin_path)
    done = subprocess.run(
        ["/bin/bash", "-c", profile + line], env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, check=False
    )
    return done.stdout.decode("utf-8", "replace")


def request(command: str, **options: object) -> frame.Request:
    return frame.request(command, **{"timeout": 10, "cwd": "/", "max_output": 1000, **options})  # type: ignore[arg-type]


def test_every_byte_comes_back_and_the_wrapper_s_own_exit_code_with_it() -> None:
    asked = request("printf 'a\\000\\377'; printf e >&2; exit 3")
    reply = text.decode(carried(asked), asked, TOKEN)
    response = frame.parse(asked, reply.data, 0.0)
    assert (response.stdout, response.stderr, response.exit_code, reply.exit_code) == (b"a\0\xff", b"e", 3, 0)


@pytest.mark.parametrize("size", [0, 1, 59_999])
def test_standard_input_travels_in_a_variable_that_the_command_does_not_see(size: int) -> None:
    asked = request("wc -c; env | grep -c HX_ || true", stdin=bytes(size))
    response = frame.parse(asked, text.decode(carried(asked), asked, TOKEN).data, 0.0)
    assert response.stdout.split() == [str(size).encode(), b"0"]


def test_much_standard_input_is_read_from_a_file_that_is_removed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    asked = request("wc -c", stdin=bytes(300_000))
    place = tmp_path / "in put"
    place.write_bytes(asked.stdin)
    response = frame.parse(asked, text.decode(carried(asked, stdin_path=str(place)), asked, TOKEN).data, 0.0)
    assert (response.stdout.strip(), place.exists()) == (b"300000", False)


def test_what_a_profile_prints_around_the_reply_is_no_part_of_it() -> None:
    asked = request("echo hi")
    reply = text.decode(carried(asked, profile="echo welcome; "), asked, TOKEN)
    assert frame.parse(asked, reply.data, 0.0).stdout == b"hi\n"


def test_a_reply_that_never_began_is_kept_as_evidence() -> None:
    asked = request("echo hi")
    reply = text.decode("bash: base64: command not found\n", asked, TOKEN)
    with pytest.raises(frame.FrameError, match="base64: command not found") as caught:
        frame.parse(asked, reply.data, 0.0)
    assert not caught.value.began


def test_a_reply_beyond_the_limit_is_refused() -> None:
    asked = request("echo hi")
    with pytest.raises(SandboxError, match="more than"):
        text.decode(f"{TOKEN}\n" + "A" * (text.reply_size(asked) + 1), asked, TOKEN)
