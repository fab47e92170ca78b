"""The file `rollout.bin`: one line of JSON, then one frame for each call, appended as they happen.

    {"format": "harness-rollout", "version": 1}\\n
    <crc32: 8 hex digits> <meta: JSON on one line>\\n<payload: meta["size"] bytes>
    ...

The CRC is of the meta's line and the payload. The payload is zlib-deflated and holds three columns one after another,
little-endian: the prompt's new ids (int32), the sampled ids (int32), their log-probabilities (float32). `meta` has how
many there are in `new`, `completion` and `logprobs`; null where the endpoint gave none.

A prompt is not stored again: it is the first `shared` tokens of what call number `base` of this file read and sampled
(prompt and completion in a row; calls count from 0), followed by the new ids. Without a base it is the new ids alone.

A frame is whole or it is not there: what a crash cuts off ends the file, and does not harm what came before.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from harness import strict_json
from harness.store.rollout.call import SampledCall

FORMAT = "harness-rollout"
VERSION = 1
FILE_HEADER = json.dumps({"format": FORMAT, "version": VERSION}).encode() + b"\n"

MAX_META = 1 << 20
MAX_TOKENS = 1 << 26
"""Of one column of one call. More is damage, not data."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One call as it is stored."""

    meta: dict[str, Any]
    new: array[int] | None
    completion: array[int] | None
    logprobs: array[float] | None

    @property
    def base(self) -> int | None:
        """The number of the call that the prompt extends."""
        base = self.meta.get("base")
        return base if isinstance(base, int) else None

    @property
    def shared(self) -> int:
        """How much of that call's tokens the prompt begins with."""
        shared = self.meta.get("shared")
        return shared if isinstance(shared, int) else 0


class Damaged(ValueError):
    """A frame is cut, or its bytes are not those that were written.

    `passed`: the file stands behind it, so that the next frame can be read; otherwise nothing that follows is found.
    """

    def __init__(self, message: str, *, passed: bool = False) -> None:
        super().__init__(message)
        self.passed = passed


def int_column(ids: Iterable[int]) -> array[int]:
    """Token ids as a column. Raises ValueError for what is no 32-bit integer."""
    try:
        return array("i", ids)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"a token id is a 32-bit integer: {error}") from None


def float_column(values: Iterable[float]) -> array[float]:
    """Log-probabilities as a column; None among them becomes NaN. Raises ValueError for what is no number."""
    try:
        return array("f", (float("nan") if value is None else value for value in values))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a log-probability is a number: {error}") from None


def encode(
    call: SampledCall,
    base: int | None,
    shared: int,
    new: array[int] | None,
    completion: array[int] | None,
    logprobs: array[float] | None,
) -> bytes:
    """A frame's bytes."""
    columns = {"new": new, "completion": completion, "logprobs": logprobs}
    payload = zlib.compress(b"".join(_little(each) for each in columns.values() if each is not None), 1)
    meta: dict[str, Any] = {
        "call_id": call.call_id,
        "session": call.session,
        "step_id": call.step_id,
        "finish_reason": call.finish_reason,
        "sampling": dict(call.sampling),
        "policy_version": call.policy_version,
        "version_runs": call.version_runs,
        "model": call.model,
        "engine": call.engine,
        "started_at": call.started_at.isoformat() if call.started_at else None,
        "duration_sec": None if call.duration_sec is None else round(call.duration_sec, 6),
        "base": base,
        "shared": shared if base is not None else None,
    }
    kept = {key: value for key, value in meta.items() if value is not None}
    kept |= {name: None if each is None else len(each) for name, each in columns.items()}
    line = strict_json.dumps(strict_json.clean({**kept, "size": len(payload)})[0]).encode() + b"\n"
    return b"%08x " % zlib.crc32(payload, zlib.crc32(line)) + line + payload


def read_header(file: BinaryIO) -> None:
    """Read the first line. Raises ValueError for a file that is not of this format, or of a later version."""
    line = file.readline(MAX_META)
    try:
        header = json.loads(line)
        known = isinstance(header, dict) and header.get("format") == FORMAT
    except ValueError:
        known = False
    if not known or not line.endswith(b"\n"):
        raise ValueError("not a rollout file")
    if header.get("version") != VERSION:
        raise ValueError(f"a rollout file of version {header.get('version')!r}; this program reads version {VERSION}")


def decode(file: BinaryIO, *, columns: bool = True) -> Frame | None:
    """The next frame, without its columns if they are not asked for, or None at the end of the file. Raises Damaged."""
    line = file.readline(MAX_META)
    if not line:
        return None
    if not line.endswith(b"\n") or line[8:9] != b" ":
        raise Damaged("cut, or not a frame")
    try:
        meta = json.loads(line[9:])
        crc, size = int(line[:8], 16), int(meta["size"])
        counts = [_count(meta.get(name)) for name in ("new", "completion", "logprobs")]
    except (ValueError, KeyError, TypeError):
        raise Damaged("not a frame") from None
    if not 0 <= size <= 12 * MAX_TOKENS + 64:
        raise Damaged("not a frame")
    payload = file.read(size)
    if len(payload) < size:
        raise Damaged("cut")
    if zlib.crc32(payload, zlib.crc32(line[9:])) != crc:
        raise Damaged("its checksum is wrong", passed=True)
    if not columns:
        return Frame(meta, None, None, None)
    total = 4 * sum(count or 0 for count in counts)
    inflater = zlib.decompressobj()
    raw = inflater.decompress(payload, total + 1)
    if len(raw) != total:
        raise Damaged("its columns are not as long as it says", passed=True)
    found: list[Any] = []
    start = 0
    for count, code in zip(counts, "iif", strict=True):
        found.append(None if count is None else _column(code, raw[start : start + 4 * count]))
        start += 4 * (count or 0)
    return Frame(meta, *found)


def call_of(frame: Frame, prompt: array[int] | None) -> SampledCall:
    """The call in a frame, with its whole prompt."""
    meta = frame.meta
    started, runs = meta.get("started_at"), meta.get("version_runs")
    return SampledCall(
        call_id=str(meta.get("call_id")),
        session=str(meta.get("session")),
        step_id=meta.get("step_id"),
        prompt_ids=prompt,
        completion_ids=frame.completion,
        logprobs=frame.logprobs,
        finish_reason=meta.get("finish_reason"),
        sampling=meta.get("sampling") or {},
        policy_version=meta.get("policy_version"),
        version_runs=None if runs is None else tuple((str(version), int(count)) for version, count in runs),
        model=meta.get("model"),
        engine=meta.get("engine"),
        started_at=None if started is None else datetime.fromisoformat(started),
        duration_sec=meta.get("duration_sec"),
    )


def _count(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
        raise ValueError("not a count")
    return value


def _little(column: array[Any]) -> bytes:
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = array(column.typecode, column)
    swapped.byteswap()
    return swapped.tobytes()


def _column(code: str, raw: bytes) -> array[Any]:
    column: array[Any] = array(code)
    column.frombytes(raw)
    if sys.byteorder != "little":
        column.byteswap()
    return column
