"""Trees in and out: what is refused on the way in, and what never reaches the host's disk on the way out."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import SandboxError
from backends.archive import pack, unpack

LIMIT = 1 << 20


def archive(*members: tuple[str, dict[str, object], bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, fields, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    out.seek(0)
    return out


def file(name: str, content: bytes = b"x", mode: int = 0o644) -> tuple[str, dict[str, object], bytes]:
    return name, {"mode": mode}, content


def link(name: str, target: str) -> tuple[str, dict[str, object], bytes]:
    return name, {"type": tarfile.SYMTYPE, "linkname": target}, b""


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_tree_makes_the_round_trip(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "run").write_bytes(b"\xff\x00")
    (source / "sub" / "run").chmod(0o750)
    (source / "empty").mkdir()
    (source / "in").symlink_to("sub/run")
    out = io.BytesIO()
    pack(source, out)
    out.seek(0)
    assert unpack(out, tmp_path / "back", max_bytes=LIMIT) == []
    assert names(tmp_path / "back") == ["empty", "in", "sub", "sub/run"]
    assert (tmp_path / "back/sub/run").read_bytes() == b"\xff\x00"
    assert stat.S_IMODE((tmp_path / "back/sub/run").stat().st_mode) == 0o750


@pytest.mark.case("H2")
@pytest.mark.parametrize("target", ["/etc/hostname", "../outside", "sub/../../outside", "up/outside"])
def test_a_link_that_leaves_the_source_is_refused_by_name(target: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (tmp_path / "outside").write_text("canary")
    if target.startswith("up/"):
        (source / "up").symlink_to("..")
    (source / "secret").symlink_to(target)
    with pytest.raises(ValueError, match=r"secret|up"):
        pack(source, io.BytesIO())


def test_a_single_file_that_is_a_link_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.sh").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match=r"test\.sh"):
        pack(tmp_path / "test.sh", io.BytesIO())


def test_what_is_no_file_folder_or_link_is_refused_and_not_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match="fifo"):
        pack(tmp_path, io.BytesIO())


def test_a_missing_source_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "missing", io.BytesIO())


@pytest.mark.case("H3")
def test_absolute_names_parents_devices_and_leaving_links_are_dropped_and_listed(tmp_path: Path) -> None:
    out = archive(
        file("./ok"),
        file("../e"),
        file("/abs"),
        link("etc", "/etc"),
        file("etc/passwd", b"not followed"),
        link("up", "../.."),
        link("sly", "ok/../../.."),
        ("dev", {"type": tarfile.BLKTYPE}, b""),
        ("fifo", {"type": tarfile.FIFOTYPE}, b""),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/hostname"}, b""),
        ("hard2", {"type": tarfile.LNKTYPE, "linkname": "../e"}, b""),
        ("same", {"type": tarfile.LNKTYPE, "linkname": "ok"}, b""),
    )
    dropped = unpack(out, tmp_path / "t", max_bytes=LIMIT)
    assert sorted(dropped) == sorted(["../e", "/abs", "etc", "up", "sly", "dev", "fifo", "hard", "hard2"])
    assert names(tmp_path / "t") == ["etc", "etc/passwd", "ok", "same"]
    assert not (tmp_path / "e").exists()


@pytest.mark.case("H1")
def test_nothing_is_written_through_a_link_of_an_earlier_download(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    target = tmp_path / "t"
    target.mkdir()
    (target / "d").symlink_to(victim)
    (target / "f").symlink_to(victim / "f")
    dropped = unpack(archive(file("d/x"), file("f", b"new")), target, max_bytes=LIMIT)
    assert dropped == ["d/x"]
    assert names(victim) == []
    assert (target / "f").read_bytes() == b"new"
    assert not (target / "f").is_symlink()


@pytest.mark.case("A15")
def test_what_arrives_is_the_caller_s_to_read_and_delete(tmp_path: Path) -> None:
    members = (("p", {"type": tarfile.DIRTYPE, "mode": 0o000, "uid": 0}, b""), file("p/f", mode=0o4000))
    unpack(archive(*members), tmp_path / "t", max_bytes=LIMIT)
    assert stat.S_IMODE((tmp_path / "t/p").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "t/p/f").stat().st_mode) == 0o600
    assert (tmp_path / "t/p/f").stat().st_uid == os.geteuid()


def test_sizes_and_counts_have_limits(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="larger than 10 bytes"):
        unpack(archive(file("a", b"123456"), file("b", b"123456")), tmp_path / "a", max_bytes=10)
    with pytest.raises(SandboxError, match="more than 3 entries"):
        unpack(archive(*(file(str(n)) for n in range(5))), tmp_path / "b", max_bytes=LIMIT, max_entries=3)


@pytest.mark.case("H3")
def test_a_sparse_file_counts_with_its_full_size(tmp_path: Path) -> None:
    size = 10 << 30
    info = tarfile.TarInfo("sparse")
    info.size = 0
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "sparse",
                        "GNU.sparse.map": f"{size},0", "GNU.sparse.size": str(size)}  # fmt: skip
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info)
    out.seek(0)
    with pytest.raises(SandboxError, match="larger"):
        unpack(out, tmp_path / "t", max_bytes=LIMIT)


def test_a_header_that_claims_gigabytes_is_not_read_into_memory(tmp_path: Path) -> None:
    class Endless:
        def __init__(self) -> None:
            info = tarfile.TarInfo("././@PaxHeader")
            info.type, info.size = tarfile.XHDTYPE, 8 << 30
            self.head = info.tobuf(tarfile.USTAR_FORMAT) if info.size < 1 << 33 else b""
            self.given = 0

        def read(self, size: int, /) -> bytes:
            data, self.head = self.head[:size], self.head[size:]
            data += b"x" * (size - len(data))
            self.given += size
            return data

    source = Endless()
    with pytest.raises(SandboxError):
        unpack(source, tmp_path / "t", max_bytes=LIMIT)
    assert source.given < 16 << 20


@pytest.mark.parametrize("data", [b"", b"garbage" * 1000, b"\0" * 512])
def test_a_damaged_archive_is_one_clear_error_or_empty(data: bytes, tmp_path: Path) -> None:
    try:
        assert unpack(io.BytesIO(data), tmp_path / "t", max_bytes=LIMIT) == []
    except SandboxError as error:
        assert "damaged" in str(error)


def test_one_entry_can_be_asked_for(tmp_path: Path) -> None:
    unpack(archive(file("name", b"content")), tmp_path / "other", max_bytes=LIMIT, root="name")
    assert (tmp_path / "other").read_bytes() == b"content"
    out = archive(("top", {"type": tarfile.DIRTYPE, "mode": 0o755}, b""), file("top/x"), file("beside"))
    assert unpack(out, tmp_path / "t", max_bytes=LIMIT, root="top") == ["beside"]
    assert names(tmp_path / "t") == ["x"]


PARTS = st.sampled_from(["..", ".", "a", "b", "", "c\n"])
PATHS = st.lists(PARTS, min_size=1, max_size=5).map("/".join)
MEMBERS = st.lists(
    st.one_of(
        st.builds(file, PATHS),
        st.builds(link, PATHS, PATHS),
        st.builds(lambda name, to: (name, {"type": tarfile.LNKTYPE, "linkname": to}, b""), PATHS, PATHS),
        st.builds(lambda name: (name, {"type": tarfile.DIRTYPE, "mode": 0}, b""), PATHS),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(MEMBERS)
def test_no_archive_reaches_beyond_its_target(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, dict[str, object], bytes]]
) -> None:
    around = tmp_path_factory.mktemp("around")
    target = around / "deep" / "target"
    unpack(archive(*members), target, max_bytes=LIMIT)
    assert [path.name for path in around.iterdir()] in ([], ["deep"])
    inside = target.resolve()
    for path in target.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(inside), path
