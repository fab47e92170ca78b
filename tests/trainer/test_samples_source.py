"""An export read as groups: Parquet or JSON lines, groups scattered or not, memory bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rl_rows import export, group, row

from harness.errors import UsageError
from trainer.samples.source import SampleSource


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_groups_come_whole_and_in_order_however_they_lie(tmp_path: Path, kind: str) -> None:
    rows = [row(1, task=f"t{number % 3}", attempt=number // 3 + 1) for number in range(12)]
    source = SampleSource(export(tmp_path / "out", rows, kind))
    assert (len(source), source.n_rows) == (3, 12)
    for number, found in enumerate(source):
        # As text, since a NaN is not equal to itself.
        assert list(map(repr, found)) == [repr(each) for each in rows if each.group_id == f"t{number}"]


def test_groups_may_be_asked_for_in_any_order(tmp_path: Path) -> None:
    rows = [each for number in range(5) for each in group([1, 0], task=f"t{number}")]
    source = SampleSource(export(tmp_path / "out", rows))
    assert [source.group(number)[0].group_id for number in (4, 0, 3)] == ["t4", "t0", "t3"]


def test_an_empty_export_has_no_groups(tmp_path: Path) -> None:
    assert len(SampleSource(export(tmp_path / "out", []))) == 0


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    folder = export(tmp_path / "out", group([1, 0]))
    (folder / "part-00000.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match=r"part-00000\.parquet cannot be read"):
        SampleSource(folder)


def test_a_row_that_contradicts_itself_is_named(tmp_path: Path) -> None:
    folder = export(tmp_path / "out", group([1, 0]), "jsonl")
    (name,) = (each.name for each in folder.glob("part-*"))
    lines = (folder / name).read_text().splitlines()
    fields = json.loads(lines[1])
    fields["loss_mask"] = [1] * len(fields["loss_mask"])
    (folder / name).write_text("\n".join([lines[0], json.dumps(fields)]) + "\n")
    with pytest.raises(UsageError, match="job/t__2#0"):
        list(SampleSource(folder))


def test_another_folder_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an export made by --to-rl"):
        SampleSource(tmp_path)
