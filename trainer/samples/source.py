"""An export on disk as groups: where each group's rows lie is known, their tokens are read when a group is asked for.

What is kept in memory is a few numbers a row, whatever the rows hold.
"""

from __future__ import annotations

import json
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.export.arrow import require_pyarrow, rows_in
from harness.export.check import problems_of
from harness.export.read import json_row, shards_of
from harness.export.schema import RLSample

_CACHED_BLOCKS = 2


class SampleSource:
    """The groups of an export, in the order in which they were exported."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError for what is no export, or is damaged."""
        self._folder = folder
        self._blocks = [block for path in shards_of(folder) for block in _blocks(path)]
        self._cache: OrderedDict[int, Any] = OrderedDict()
        block_of, row_of, group_of = array("i"), array("i"), array("i")
        numbers: dict[bytes, int] = {}
        self._largest = -1
        for number, block in enumerate(self._blocks):
            names, largest = block.index()
            self._largest = max(self._largest, largest)
            for position, name in enumerate(names):
                key = blake2b(name.encode(), digest_size=8).digest()
                block_of.append(number)
                row_of.append(position)
                group_of.append(numbers.setdefault(key, len(numbers)))
        groups = np.frombuffer(group_of, dtype=np.int32) if group_of else np.zeros(0, dtype=np.int32)
        self._order = np.argsort(groups, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(groups[self._order], np.arange(len(numbers) + 1))
        self._block_of, self._row_of = block_of, row_of

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def n_rows(self) -> int:
        """Rows of all groups."""
        return len(self._row_of)

    @property
    def largest_id(self) -> int:
        """The largest token id of all rows; -1 without any."""
        return self._largest

    def shuffled(self, seed: Sequence[int]) -> NDArray[np.int64]:
        """All groups' numbers in an order that follows from the seed.

        Blocks are shuffled, and then groups among as many blocks as are held in memory: an order over all groups would
        read a block anew for each.
        """
        rng = np.random.default_rng(seed)
        block = np.asarray(self._block_of, dtype=np.int64)[self._order[self._starts[:-1]]]
        place = np.argsort(rng.permutation(len(self._blocks)))[block] // _CACHED_BLOCKS
        return np.lexsort((rng.random(len(self)), place))

    def group(self, number: int) -> list[RLSample]:
        """The rows of one group, in the order of the export. Raises UsageError for a damaged row."""
        places: dict[int, list[int]] = {}
        for row in self._order[self._starts[number] : self._starts[number + 1]]:
            places.setdefault(self._block_of[row], []).append(self._row_of[row])
        found: list[RLSample] = []
        for block, rows in places.items():
            found += self._blocks[block].rows(self._loaded(block), rows)
        return found

    def __iter__(self) -> Iterator[list[RLSample]]:
        return (self.group(number) for number in range(len(self)))

    def _loaded(self, number: int) -> Any:
        if number in self._cache:
            self._cache.move_to_end(number)
        else:
            self._cache[number] = self._blocks[number].load()
            while len(self._cache) > _CACHED_BLOCKS:
                self._cache.popitem(last=False)
        return self._cache[number]


class _ParquetBlock:
    """One row group of one file."""

    def __init__(self, path: Path, number: int) -> None:
        self._path, self._number = path, number

    def index(self) -> tuple[list[str], int]:
        """Each row's group, and the largest token id."""
        import pyarrow.compute as pc

        read = self._read(["group_id", "token_ids"])
        largest = [pc.max(chunk.flatten()).as_py() for chunk in read.column("token_ids").chunks]
        names = list(map(str, read.column("group_id").to_pylist()))
        return names, max((each or 0 for each in largest), default=-1)

    def load(self) -> list[RLSample]:
        """All rows. Choosing a few of an Arrow table's rows costs as much, and once for every group."""
        try:
            return [_sound(row, self._path) for batch in self._read(None).to_batches() for row in rows_in(batch)]
        except ValueError as error:
            raise UsageError(f"{self._path}: {error}") from error

    def rows(self, loaded: Any, positions: Sequence[int]) -> list[RLSample]:
        return [loaded[position] for position in positions]

    def _read(self, columns: list[str] | None) -> Any:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(self._path) as file:
                return file.read_row_group(self._number, columns=columns)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise UsageError(f"{self._path} cannot be read: {str(error).splitlines()[0]}") from error


class _JsonLines:
    """One file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def index(self) -> tuple[list[str], int]:
        """Each row's group, and the largest token id."""
        names, largest = [], -1
        with self._path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                name, ids = self._parsed(line, number)
                names.append(name)
                largest = max(largest, max(ids, default=-1))
        return names, largest

    def load(self) -> Any:
        offsets = array("q", [0])
        with self._path.open("rb") as file:
            for line in file:
                offsets.append(offsets[-1] + len(line))
        return offsets

    def rows(self, loaded: Any, positions: Sequence[int]) -> list[RLSample]:
        found = []
        with self._path.open("rb") as file:
            for position in positions:
                file.seek(loaded[position])
                fields = json.loads(file.read(loaded[position + 1] - loaded[position]))
                try:
                    row = json_row(fields)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise UsageError(f"{self._path}:{position + 1} is not a row: {error}") from error
                found.append(_sound(row, self._path))
        return found

    def _parsed(self, line: str, number: int) -> tuple[str, list[int]]:
        try:
            fields = json.loads(line)
            return str(fields["group_id"]), list(fields["token_ids"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self._path}:{number} is not a row of an export") from error


def _blocks(path: Path) -> list[_ParquetBlock | _JsonLines]:
    if path.suffix != ".parquet":
        return [_JsonLines(path)]
    require_pyarrow()
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return [_ParquetBlock(path, number) for number in range(file.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _sound(row: RLSample, path: Path) -> RLSample:
    problems = problems_of(row)
    if problems:
        raise UsageError(f"{path}: {row.sample_id}: {problems[0]}")
    return row
