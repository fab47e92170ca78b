"""Files of the record: whole or absent, strict JSON, safe names."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store.files import read_json, to_json, write_atomic
from harness.store.layout import slug, trial_name


@pytest.mark.case("D4")
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    write_atomic(path, "old")

    def crash(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.case("E1")
def test_what_is_not_json_is_neither_written_nor_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"metric": float("nan")})
    path = tmp_path / "x.json"
    for text in ('{"a": NaN}', '{"a": Infinity}', "{", "", "[" * 200_000):
        path.write_text(text)
        with pytest.raises(ValueError):
            read_json(path)


def test_a_lone_surrogate_is_replaced_where_it_can_not_be_written() -> None:
    assert to_json({"name": "b\udcff"}) == '{\n  "name": "b\ufffd"\n}\n'


@pytest.mark.case("A7")
def test_the_troublesome_names_give_safe_and_different_folders() -> None:
    names = ["Foo/Bar Baz", "_x", "Проект", "a", "k" * 120, "foo/bar-baz", "foo-bar-baz"]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", each) for each in slugs)


@given(st.lists(st.text(max_size=80), unique=True, max_size=20), st.integers(1, 99), st.integers(0, 9))
def test_every_name_gives_a_safe_folder_of_its_own(names: list[str], attempt: int, retry: int) -> None:
    folders = [trial_name(name, attempt, retry) for name in names]
    assert len(set(folders)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", folder) for folder in folders)
    assert not set(folders) & {trial_name(name, attempt, retry + 1) for name in names}
