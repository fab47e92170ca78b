"""Rows as Arrow batches and back. Token columns travel as buffers: no token becomes a Python object on the way."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.export.schema import COLUMNS, SCHEMA_VERSION, RLSample, Span, arrow_schema

if TYPE_CHECKING:
    import pyarrow

TOKEN_COLUMNS = {"token_ids": "i", "loss_mask": "b", "logprobs": "f", "policy_index": "h", "chunk_ids": "i"}
"""The columns with an element for each token, and their `array` type."""
SPAN_FIELDS = tuple(each.name for each in fields(Span))
PAIRS = ("reward_parts", "behaviour")


def require_pyarrow() -> None:
    """Raises UsageError, with the command that mends it, where pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "Parquet needs the package 'pyarrow': pip install 'harness-rl[export]' (or use --format jsonl)"
        ) from error


def batch_of(rows: Sequence[RLSample]) -> pyarrow.RecordBatch:
    """Rows as one batch."""
    import pyarrow as pa

    schema = arrow_schema()
    arrays = [
        _token_column([getattr(row, name) for row in rows], TOKEN_COLUMNS[name], schema.field(name).type)
        if name in TOKEN_COLUMNS
        else pa.array([_value(row, name) for row in rows], schema.field(name).type)
        for name in COLUMNS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _token_column(columns: Sequence[Sequence[Any]], code: str, kind: Any) -> Any:
    import pyarrow as pa

    values, offsets = array(code), array("i", [0])
    for column in columns:
        values.extend(column if isinstance(column, array) and column.typecode == code else array(code, column))
        offsets.append(len(values))
    flat = pa.Array.from_buffers(kind.value_type, len(values), [None, pa.py_buffer(values)])
    ends = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
    return pa.ListArray.from_arrays(ends, flat, type=kind)


def _value(row: RLSample, name: str) -> Any:
    value = getattr(row, name)
    if name == "spans":
        return [{field: getattr(span, field) for field in SPAN_FIELDS} for span in value]
    if name in PAIRS:
        return [{"key": key, "value": number} for key, number in value.items()]
    return value


def rows_in(batch: pyarrow.RecordBatch) -> Iterator[RLSample]:
    """The rows of a batch. Raises ValueError for one that lacks a column, has another kind or is of a later version."""
    missing = [name for name in COLUMNS if name not in batch.schema.names]
    if missing:
        raise ValueError(f"not an export of this version: no column {missing[0]!r}")
    schema = arrow_schema()
    for name in TOKEN_COLUMNS:
        column, kind = batch.column(name), schema.field(name).type.value_type
        if getattr(column.type, "value_type", None) != kind or column.null_count or column.flatten().null_count:
            raise ValueError(f"column {name!r} is not a list of {kind}, without nulls")
    columns = {
        name: _tokens(batch.column(name), TOKEN_COLUMNS[name])
        if name in TOKEN_COLUMNS
        else iter(batch.column(name).to_pylist())
        for name in COLUMNS
    }
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(COLUMNS, values, strict=True))
        if row["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version {row['schema_version']}; this program reads {SCHEMA_VERSION}")
        yield row_of(row)


def row_of(values: dict[str, Any]) -> RLSample:
    """A row from plain values, which it takes over. Raises KeyError or TypeError for values that make none."""
    values["spans"] = tuple(map(_span, values["spans"]))
    values["policy_versions"] = tuple(values["policy_versions"])
    for name in PAIRS:
        values[name] = _pairs(values[name])
    return RLSample(**values)


def _span(values: dict[str, Any]) -> Span:
    tools = values.get("tools")
    values["tools"] = None if tools is None else tuple(tools)
    return Span(**values)


def _pairs(value: Any) -> dict[str, float]:
    return dict(value) if isinstance(value, dict) else {each["key"]: each["value"] for each in value}


def _tokens(column: Any, code: str) -> Iterator[array[Any]]:
    """Each row's tokens, copied out of the column's buffer."""
    size = array(code).itemsize
    view = memoryview(column.values.buffers()[1] or b"")
    shift = column.values.offset
    for start, stop in pairwise(column.offsets.to_pylist()):
        found: array[Any] = array(code)
        found.frombytes(view[(shift + start) * size : (shift + stop) * size])
        yield found
