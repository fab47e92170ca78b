"""`harness export`: jobs as training data, and the check of what was exported."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import UsageError

if TYPE_CHECKING:
    from collections import Counter

    from rich.console import Console

    from harness.export.retokenize import Tokenizer

_TO = "What to make"
_RL = "For --to-rl"


class FileFormat(StrEnum):
    """What rows are written as."""

    parquet = "parquet"
    jsonl = "jsonl"


def export(
    jobs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of jobs, ours or Harbor's, or of single trials; - reads them from stdin, a line each."
        ),
    ] = None,
    to_rl: Annotated[
        bool, typer.Option("--to-rl", help="Rows of sampled tokens, masks and rewards.", rich_help_panel=_TO)
    ] = False,
    to_sft: Annotated[
        bool, typer.Option("--to-sft", help="Chats of attempts that did well.", rich_help_panel=_TO)
    ] = False,
    to_atif: Annotated[
        bool, typer.Option("--to-atif", help="ATIF documents that need no other file.", rich_help_panel=_TO)
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder to write; an export that is there is replaced.")
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="What is kept, masked and dropped, and why; without -o nothing is written.")
    ] = False,
    check: Annotated[
        Path | None, typer.Option("--check", help="Validate the export in this folder, row by row.")
    ] = None,
    file_format: Annotated[FileFormat, typer.Option("--format", help="Of the rows.", rich_help_panel=_RL)] = (
        FileFormat.parquet
    ),
    realign_below: Annotated[
        int,
        typer.Option(
            min=0,
            help="A response of fewer tokens that the next prompt spells differently is masked, instead of starting "
            "a row of its own.",
            rich_help_panel=_RL,
        ),
    ] = 0,
    retokenize: Annotated[
        str | None,
        typer.Option(
            help="Make ids from text where none were sampled, with this tokenizer; every such row is flagged.",
            rich_help_panel=_RL,
        ),
    ] = None,
    min_reward: Annotated[
        float, typer.Option(help="The least reward of a chat.", rich_help_panel="For --to-sft")
    ] = 1.0,
    drop_media: Annotated[
        bool,
        typer.Option(
            "--drop-media", help="Replace images and sounds by a placeholder.", rich_help_panel="For --to-sft"
        ),
    ] = False,
) -> int:
    """Export jobs as training data."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    if check is not None:
        if jobs or to_rl or to_sft or to_atif or stats or out:
            raise UsageError("--check validates one export and goes with no other option")
        return _check(check, console)
    if jobs == [Path("-")]:
        jobs = [Path(line) for line in map(str.strip, sys.stdin) if line]
    if not jobs:
        raise UsageError("name the jobs to export, e.g.: harness export jobs/my-job --to-rl -o data")
    if to_rl + to_sft + to_atif > 1 or not (to_rl or to_sft or to_atif or stats):
        raise UsageError("choose one of --to-rl, --to-sft and --to-atif (or --stats to only count)")
    if stats and (to_sft or to_atif):
        raise UsageError("--stats counts what --to-rl would write; leave out --to-sft and --to-atif")
    if stats and out is None:
        return _count(jobs, realign_below, retokenize, console)
    if out is None:
        raise UsageError("say where to write: -o FOLDER")
    if to_sft:
        from harness.export.sft import export_sft

        _print_counts(console, out, export_sft(jobs, out, min_reward=min_reward, drop_media=drop_media))
    elif to_atif:
        from harness.export.selfcontained import export_atif

        _print_counts(console, out, export_atif(jobs, out))
    else:
        _rows(jobs, out, file_format, realign_below, retokenize, console)
    return 0


def _rows(
    jobs: list[Path], out: Path, file_format: FileFormat, realign_below: int, retokenize: str | None, console: Console
) -> None:
    from harness.cli.export_table import print_stats
    from harness.export.rl import export_rl

    stats = export_rl(
        jobs,
        out,
        file_format="parquet" if file_format is FileFormat.parquet else "jsonl",
        realign_below=realign_below,
        tokenizer=_tokenizer(retokenize),
    )
    print_stats(console, stats)
    console.print(f"rows:  {out}", markup=False, soft_wrap=True)
    console.print(f"check: harness export --check {out}", markup=False, soft_wrap=True)


def _count(jobs: list[Path], realign_below: int, retokenize: str | None, console: Console) -> int:
    from harness.cli.export_table import print_stats
    from harness.export.rl import count_rl

    stats = count_rl(jobs, realign_below=realign_below, tokenizer=_tokenizer(retokenize))
    print_stats(console, stats)
    if not stats.trainable_rows:
        console.print(f"note: {stats.why_nothing()}", markup=False, soft_wrap=True)
    return 0


def _tokenizer(name: str | None) -> Tokenizer | None:
    from harness.export.retokenize import load_tokenizer

    return None if name is None else load_tokenizer(name)


def _check(folder: Path, console: Console) -> int:
    from harness.export.read import read_samples

    rows = trainable = tokens = trained = 0
    groups: set[str] = set()
    seen: set[str] = set()
    for row in read_samples(folder):
        if row.sample_id in seen:
            raise UsageError(f"{folder}: two rows are called {row.sample_id}")
        seen.add(row.sample_id)
        groups.add(row.group_id)
        rows, trainable = rows + 1, trainable + row.trainable
        tokens, trained = tokens + len(row.token_ids), trained + sum(row.loss_mask)
    console.print(
        f"{folder} is sound: {rows} rows in {len(groups)} groups, {trainable} of them trainable, "
        f"{tokens} tokens, {trained} of them in the loss",
        markup=False,
        soft_wrap=True,
    )
    return 0


def _print_counts(console: Console, out: Path, counts: Counter[str]) -> None:
    listed = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.most_common() if count)
    console.print(f"{counts.total()} attempts: {listed}", markup=False, soft_wrap=True)
    console.print(f"wrote {out}", markup=False, soft_wrap=True)
