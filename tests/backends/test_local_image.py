"""The Dockerfile subset: what it comes to, and how the rest is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import SandboxBuildError, SandboxSpec, SandboxUnsupported, create_provider
from backends.local.image import Copy, expand, logical_lines, read_dockerfile


def plan_of(folder: Path, text: str):  # type: ignore[no-untyped-def]
    (folder / "Dockerfile").write_text(text)
    return read_dockerfile(folder)


def test_comments_and_continuations_make_one_instruction(tmp_path: Path) -> None:
    text = "# x\n\nFROM debian AS base\nENV A=1 \\\n  # why\n\n  B='two words'\nENV C=\"$A-${B}\"\nWORKDIR /a\n"
    assert [number for number, _ in logical_lines(text)] == [3, 4, 8, 9]
    plan = plan_of(tmp_path, text)
    assert plan.env == {"A": "1", "B": "two words", "C": "1-two words"}
    assert plan.workdir == "/a"


def test_workdirs_add_up_and_env_expands_in_them(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "FROM x\nENV ROOT /srv/a b\nWORKDIR /srv\nWORKDIR ${SUB:-one}/two\nUSER agent:agent\n")
    assert plan.env == {"ROOT": "/srv/a b"}
    assert plan.workdir == "/srv/one/two"
    assert plan.directories == ["/srv", "/srv/one/two"]
    assert plan.user == "agent"


def test_copy_knows_files_folders_patterns_and_modes(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "dir/c", "run.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    plan = plan_of(
        tmp_path,
        "FROM x\nWORKDIR /app\nCOPY a.txt .\nCOPY a.txt /etc/new/name\nCOPY *.txt /data/\nCOPY dir /app/sub\n"
        'COPY --chown=me:me --chmod=755 ["run.sh", "/usr/src/"]\nADD dir/c /app\n',
    )
    root = tmp_path.resolve()
    assert plan.copies == [
        Copy(root / "a.txt", "/app/a.txt", None),
        Copy(root / "a.txt", "/etc/new/name", None),
        Copy(root / "a.txt", "/data/a.txt", None),
        Copy(root / "b.txt", "/data/b.txt", None),
        Copy(root / "dir", "/app/sub", None),
        Copy(root / "run.sh", "/usr/src/run.sh", 0o755),
        Copy(root / "dir/c", "/app/c", None),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "RUN apt-get install -y \\\n  git",
        "ARG X=1",
        "FROM second",
        "COPY --from=base /a /b",
        "COPY <<EOF /app/x",
        "COPY ../secret /app/",
        "ADD https://example.org/x /app/",
        "ADD x.tar.gz /app/",
        'ENTRYPOINT ["x"]',
        'SHELL ["bash"]',
        "ONBUILD COPY . .",
        "COPY leaving /app/",
    ],
)
def test_what_needs_an_engine_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "leaving").symlink_to("/etc/hostname")
    with pytest.raises(SandboxUnsupported) as caught:
        plan_of(tmp_path, f"FROM x\n\n{line}\n")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'Dockerfile'}:3: {line.split(maxsplit=1)[0]}")
    assert "--backend docker" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", ["", "FROM x\nCOPY missing /app/\n", "FROM x\nENV =1\nENV A=1 B\n", 'FROM x\nCOPY ["a\n']
)
def test_what_no_engine_could_build_is_a_build_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxBuildError):
        plan_of(tmp_path, text)


@given(st.text(max_size=300))
def test_any_text_is_a_plan_or_one_clear_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("dockerfile")
    (folder / "Dockerfile").write_text("FROM x\n" + text, encoding="utf-8", errors="replace")
    try:
        read_dockerfile(folder)
    except (SandboxUnsupported, SandboxBuildError) as error:
        assert str(error)


@given(st.text(alphabet="ab$ {}\"'\\:-+=", max_size=40))
def test_expansion_never_fails(text: str) -> None:
    assert isinstance(expand(text, {"a": "b"}), str)


async def test_a_task_s_environment_is_put_in_place(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("content")
    (tmp_path / "data" / "in").symlink_to("x")
    (tmp_path / "tool").write_text("#!/bin/sh\necho tool\n")
    (tmp_path / "Dockerfile").write_text(
        "FROM debian\nENV GREETING='good day'\nWORKDIR /usr/src/work\nCOPY data ./d\nCOPY --chmod=0755 tool /opt/bin/\n"
        'USER agent\nCMD ["x"]\n'
    )
    provider = create_provider("local")
    if not (await provider.check()).works:
        pytest.skip("namespaces are not usable here")
    sandbox = await provider.start(SandboxSpec(build_dir=tmp_path, env={"MORE": "1"}))
    try:
        done = await sandbox.execute(
            'echo "$GREETING $MORE"; pwd; cat d/in; /opt/bin/tool; echo >/usr/src/w', timeout=10
        )
        assert done.output == "good day 1\n/usr/src/work\ncontenttool"
        assert (await sandbox.execute("true", timeout=10, user="agent")).exit_code == 0
        with pytest.raises(SandboxUnsupported, match="nobody"):
            await sandbox.execute("true", timeout=10, user="nobody")
    finally:
        await sandbox.stop()
    assert stat.S_IMODE((tmp_path / "tool").stat().st_mode) == 0o644


@pytest.mark.parametrize("path", ["/usr/lib/mine", "/bin", "/etc/ssl/x", "/proc/x", "relative", "/a/../b"])
async def test_a_directory_that_cannot_be_writable_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\n")
    provider = create_provider("local")
    if not (await provider.check()).works:
        pytest.skip("namespaces are not usable here")
    with pytest.raises(SandboxUnsupported):
        await provider.start(SandboxSpec(build_dir=tmp_path, directories=(path,)))


async def test_an_image_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnsupported, match="--backend docker"):
        await create_provider("local").start(SandboxSpec(image="debian"))
