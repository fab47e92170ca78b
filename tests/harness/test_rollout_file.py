"""The rollout file: every call comes back as it was, each token is stored once, a crash costs only the last call."""

from __future__ import annotations

import json
import threading
import zlib
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import call, conversations

from harness.store.rollout import RolloutReader, RolloutWriter, SampledCall
from harness.store.rollout.prefix import shared_prefix


def write(path: Path, calls: Sequence[SampledCall]) -> Path:
    writer = RolloutWriter(path)
    for each in calls:
        writer.add(each)
    writer.close()
    return path


def plain(each: SampledCall) -> tuple[object, ...]:
    """A call with columns that can be compared, log-probabilities as the 32 bits that they are stored in."""
    bits = None if each.logprobs is None else array("f", each.logprobs).tobytes()
    prompt = None if each.prompt_ids is None else list(each.prompt_ids)
    completion = None if each.completion_ids is None else list(each.completion_ids)
    return each.call_id, each.session, prompt, completion, bits, each.finish_reason


@settings(max_examples=60)
@given(calls=conversations())
def test_every_call_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, calls: list[SampledCall]) -> None:
    path = write(tmp_path_factory.mktemp("r") / "rollout.bin", calls)
    reader = RolloutReader(path)
    assert [plain(each) for each in reader] == [plain(each) for each in calls]
    assert reader.findings == []


def test_what_is_known_of_a_call_comes_back(tmp_path: Path) -> None:
    known = SampledCall(
        call_id="é",
        session="sub-1",
        step_id=3,
        prompt_ids=(1, 2),
        completion_ids=(3, 4),
        logprobs=(-0.5, -1.0),
        finish_reason="length",
        sampling={"temperature": 0.7, "stop": ["x"]},
        policy_version="7",
        version_runs=(("7", 1), ("8", 1)),
        model="m",
        engine="vllm",
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        duration_sec=1.5,
    )
    (back,) = RolloutReader(write(tmp_path / "r", [known]))
    assert back.prompt_ids == array("i", (1, 2)) and back.completion_ids == array("i", (3, 4))
    for name in set(SampledCall.__dataclass_fields__) - {"prompt_ids", "completion_ids", "logprobs"}:
        assert getattr(back, name) == getattr(known, name), name


def test_a_call_of_unknown_tokens_is_kept_too(tmp_path: Path) -> None:
    (back,) = RolloutReader(write(tmp_path / "r", [SampledCall(call_id="c", finish_reason="stop")]))
    assert (back.prompt_ids, back.completion_ids, back.logprobs) == (None, None, None)


def test_a_hundred_turns_cost_their_length_and_not_its_square(tmp_path: Path) -> None:
    history = list(range(1000))
    calls = []
    for turn in range(100):
        answer = [(turn * 37 + number) % 50_000 for number in range(50)]
        calls.append(call(history, answer, call_id=f"c{turn}"))
        history = [*history, *answer, *range(turn, turn + 50)]
    size = write(tmp_path / "r", calls).stat().st_size
    assert size < 8 * len(history)
    assert size < sum(len(each.prompt_ids or ()) for each in calls) / 4


def test_the_file_is_read_without_our_code(tmp_path: Path) -> None:
    with write(tmp_path / "r", [call([5, 6, 7], [8, 9])]).open("rb") as file:
        assert json.loads(file.readline()) == {"format": "harness-rollout", "version": 1}
        line = file.readline()
        meta = json.loads(line[9:])
        payload = file.read(meta["size"])
    assert int(line[:8], 16) == zlib.crc32(payload, zlib.crc32(line[9:]))
    raw = zlib.decompress(payload)
    assert (meta["new"], meta["completion"], meta["logprobs"]) == (3, 2, 2)
    assert array("i", raw[:20]) == array("i", [5, 6, 7, 8, 9])


@pytest.mark.case("E13")
@given(data=st.data())
@settings(max_examples=30)
def test_a_file_cut_anywhere_yields_every_call_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    calls = [call(list(range(20 + 5 * number)), [number] * 3, call_id=f"c{number}") for number in range(4)]
    folder = tmp_path_factory.mktemp("r")
    whole = write(folder / "whole", calls).read_bytes()
    ends = []
    for number in range(5):
        ends.append(len(write(folder / f"{number}", calls[:number] or []).read_bytes()) if number else 0)
    cut = data.draw(st.integers(ends[1], len(whole)))
    (folder / "cut").write_bytes(whole[:cut])
    reader = RolloutReader(folder / "cut")
    expected = sum(end <= cut for end in ends[1:])
    assert [plain(each) for each in reader] == [plain(each) for each in calls[:expected]]
    assert len(reader.findings) == (cut not in ends)


@pytest.mark.case("E13")
def test_a_damaged_call_hides_only_those_that_extend_it(tmp_path: Path) -> None:
    base = list(range(30))
    calls = [call(base, [1, 2]), call([*range(100, 130)], [3]), call([*base, 1, 2, 9], [4])]
    raw = bytearray(write(tmp_path / "r", calls).read_bytes())
    raw[raw.index(b"\n", raw.index(b"\n") + 1) + 5] ^= 0xFF  # a byte of the first payload
    (tmp_path / "r").write_bytes(raw)
    reader = RolloutReader(tmp_path / "r")
    assert [(each.prompt_ids is not None, list(each.completion_ids or ())) for each in reader] == [
        *((True, [3]), (False, [4])),
    ]
    assert [finding.partition(" ")[2][:6] for finding in reader.findings] == ["0 at b", "2: wha"]


def test_a_writer_goes_on_after_what_a_crash_left(tmp_path: Path) -> None:
    first, second = call(list(range(20)), [1]), call(list(range(30)), [2])
    path = write(tmp_path / "r", [first])
    path.write_bytes(path.read_bytes() + b'0badc0de {"size": 9')
    write(path, [second])
    assert [plain(each) for each in RolloutReader(path)] == [plain(first), plain(second)]


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    writer = RolloutWriter(tmp_path / "r")
    writer.add(call([1], [2]))
    before = (tmp_path / "r").read_bytes()
    real = os.pwrite

    def half(handle: int, data: bytes, offset: int) -> int:
        real(handle, bytes(data)[:10], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match="No space"):
            writer.add(call([1, 2], [3]))
    assert (tmp_path / "r").read_bytes() == before
    writer.add(call([1, 2], [3]))
    writer.close()
    assert len(list(RolloutReader(tmp_path / "r"))) == 2


@pytest.mark.case("E12")
def test_sub_agents_on_several_threads_share_one_file(tmp_path: Path) -> None:
    writer = RolloutWriter(tmp_path / "r")

    def work(name: str) -> None:
        history = [*range(40)]
        for number in range(20):
            writer.add(call(history, [number], call_id=f"{name}/{number}", session=name))
            history = [*history, number, *range(10)]

    threads = [threading.Thread(target=work, args=(f"sub{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    calls = list(RolloutReader(tmp_path / "r"))
    assert (len(calls), writer.calls, writer.with_tokens) == (80, 80, 80)
    for name in ("sub0", "sub3"):
        mine = [each for each in calls if each.session == name]
        assert [len(each.prompt_ids or ()) for each in mine] == [40 + 11 * number for number in range(20)]


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\x00" * 100, b'{"format": "harness-rollout", "version": 2}\n'])
def test_what_is_no_rollout_file_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(ValueError, match="rollout file"):
        list(RolloutReader(tmp_path / "r"))


@pytest.mark.parametrize("ids", [[1 << 31], ["a"], [None], [1.5]])
def test_what_is_no_token_id_is_not_written(tmp_path: Path, ids: list[int]) -> None:
    writer = RolloutWriter(tmp_path / "r")
    with pytest.raises(ValueError, match="token id"):
        writer.add(SampledCall(call_id="c", prompt_ids=ids))
    assert not (tmp_path / "r").exists()


@given(one=st.lists(st.integers(0, 2), max_size=40), other=st.lists(st.integers(0, 2), max_size=40))
def test_the_shared_prefix_is_where_two_sequences_first_differ(one: list[int], other: list[int]) -> None:
    expected = 0
    while expected < min(len(one), len(other)) and one[expected] == other[expected]:
        expected += 1
    assert shared_prefix(array("i", one), array("i", other)) == expected
