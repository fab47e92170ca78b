"""Reads an export back, row by row: the way in for a trainer, and for `--check`."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from math import nan
from pathlib import Path
from typing import Any

from harness.errors import UsageError, first_line
from harness.export.arrow import TOKEN_COLUMNS, require_pyarrow, row_of, rows_in
from harness.export.check import problems_of
from harness.export.folder import manifest_of
from harness.export.schema import COLUMNS, SCHEMA_VERSION, RLSample


def read_samples(folder: Path) -> Iterator[RLSample]:
    """The rows of an export, Parquet or JSON lines, in the order in which they were written.

    Raises UsageError, with the file and where in it, for what is no export or is damaged.
    """
    for path in shards_of(folder):
        read = _parquet_rows if path.suffix == ".parquet" else _json_rows
        for row in read(path):
            try:
                problems = problems_of(row)
            except (TypeError, ValueError, OverflowError) as error:
                problems = [f"a value is of another kind: {error}"]
            if problems:
                raise UsageError(f"{path}: {row.sample_id}: {problems[0]}")
            yield row


def shards_of(folder: Path) -> list[Path]:
    """The files of an export. Raises UsageError for a folder that is no export of rows, or lacks one of its files."""
    manifest = manifest_of(folder)
    if manifest is None or manifest.get("kind") != "rl":
        raise UsageError(f"{folder} is not an export made by --to-rl")
    files = manifest.get("files")
    if not (isinstance(files, list) and all(isinstance(each, dict) for each in files)):
        raise UsageError(f"{folder / 'export.json'} does not name the export's files")
    paths = [folder / str(each.get("name")) for each in files]
    for path in paths:
        if path.parent != folder or not path.is_file():
            raise UsageError(f"{path} is missing, although {folder / 'export.json'} names it")
    return paths


def _parquet_rows(path: Path) -> Iterator[RLSample]:
    require_pyarrow()
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                yield from rows_in(batch)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}") from error


def _json_rows(path: Path) -> Iterator[RLSample]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield json_row(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                what = f"no column {error}" if isinstance(error, KeyError) else error
                raise UsageError(f"{path}:{number} is not a row: {what}") from error


def json_row(fields: Any) -> RLSample:
    """A row from a JSON line. Raises ValueError, KeyError or TypeError for values that make none."""
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    if fields.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version {fields.get('schema_version')!r}; this program reads {SCHEMA_VERSION}")
    fields["logprobs"] = [nan if value is None else value for value in fields["logprobs"]]
    fields |= {name: array(code, fields[name]) for name, code in TOKEN_COLUMNS.items()}
    return row_of({name: fields[name] for name in COLUMNS})
