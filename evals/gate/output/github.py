"""The gate's result inside a GitHub workflow: annotations on standard output, a step summary, and a step output.

GitHub shows ten annotations of a kind per step and drops a summary above 1 MiB, so both are kept below that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evals.escape import annotation, annotation_property
from evals.gate.judge import GateResult
from evals.gate.output.markdown import to_markdown
from evals.gate.output.words import headline
from evals.gate.rule import Verdict
from harness.errors import UsageError

MAX_SUMMARY = 1 << 20
MAX_ANNOTATIONS = 10


def to_annotations(result: GateResult) -> str:
    """Workflow commands, one a line: the verdict, then the tasks that got worse."""
    level = {Verdict.FAIL: "error", Verdict.INVALID: "error", Verdict.INCONCLUSIVE: "warning"}
    why = "; ".join((headline(result), *result.reasons))
    lines = [f"::{level.get(result.verdict, 'notice')} title=harness gate::{annotation(why)}"]
    if result.verdict is not Verdict.PASS:
        worse = [flip for flip in result.comparison.flips if flip.value < 0]
        lines += [
            f"::warning title={annotation_property(flip.new.name)}::"
            + annotation(
                f"passed {flip.base.passed} of {flip.base.counted} before, {flip.new.passed} of {flip.new.counted} now"
            )
            for flip in worse[: MAX_ANNOTATIONS - 1]
        ]
    return "\n".join(lines) + "\n"


def write_step_files(result: GateResult, environment: Mapping[str, str]) -> None:
    """Append to the step's summary and outputs, where the environment names their files."""
    used = 0
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        if Path(summary).exists():
            used = Path(summary).stat().st_size
        _append(Path(summary), to_markdown(result, max(0, MAX_SUMMARY - used)))
    if output := environment.get("GITHUB_OUTPUT"):
        _append(Path(output), f"verdict={result.verdict.value}\n")


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
