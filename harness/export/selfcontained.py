"""Attempts as ATIF documents that need no other file: token ids folded in, sub-agents embedded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import __version__, packed, strict_json
from harness.atif.model import Metrics, ObservationResult, Step, SubagentRef, Trajectory
from harness.atif.reader import load_trajectory
from harness.errors import UsageError
from harness.export.attempts import find_attempts, open_jobs, read_attempt
from harness.export.folder import export_folder, write_manifest
from harness.records import TrialResult
from harness.store.layout import TrialPaths, slug
from harness.store.rollout import RolloutReader, SampledCall
from harness.store.rollout.call import MAIN

Calls = Mapping[tuple[str, int | None], SampledCall]


def export_atif(folders: Sequence[Path], target: Path) -> Counter[str]:
    """Write one document for each trajectory, `JOB/TRIAL[.STEP].json`; what became of the attempts.

    Raises UsageError for folders that are no jobs, for a trajectory that is not ATIF, and when there is none.
    """
    jobs = open_jobs(folders)
    attempts = find_attempts(jobs)
    counts: Counter[str] = Counter(attempts.unreadable)
    names: list[str] = []
    with export_folder(target) as draft:
        for ref in attempts.refs:
            result = read_attempt(ref)
            steps = _steps(ref.paths, result) if result else []
            for step in steps:
                name = f"{slug(ref.job.name)}/{ref.folder}{f'.{slug(step)}' if step else ''}.json"
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                assert result is not None
                document = _document(ref.paths, result, step)
                (draft / name).write_text(strict_json.dumps(document) + "\n", encoding="utf-8")
                names.append(name)
            counts["kept" if steps else "no_trajectory"] += 1
        if not names:
            raise UsageError(f"no attempt of {attempts.total} has a trajectory")
        write_manifest(
            draft,
            {
                "kind": "atif",
                "harness_version": __version__,
                "jobs": [str(job.paths.root.resolve()) for job in jobs],
                "files": [{"name": name, "bytes": (draft / name).stat().st_size} for name in names],
                "stats": {"attempts": attempts.total, **counts},
            },
        )
    return counts


def _steps(paths: TrialPaths, result: TrialResult) -> list[str | None]:
    steps = [each.step_name for each in result.step_results] if result.step_results else [None]
    return [step for step in steps if paths.has_trajectory(step)]


def _document(paths: TrialPaths, result: TrialResult, step: str | None) -> dict[str, Any]:
    path = paths.trajectory(step)
    trajectory = self_contained(load_trajectory(path), path.parent, paths.root)
    if paths.rollout(step).is_file():
        try:
            calls = {(call.session, call.step_id): call for call in RolloutReader(paths.rollout(step))}
        except ValueError as error:
            raise UsageError(f"{paths.rollout(step)}: {error}") from error
        trajectory = with_tokens(trajectory, calls)
    outcome = {
        "outcome": result.outcome.value if result.outcome else None,
        "reward": result.reward,
        "group_id": result.group_id,
        "trial": result.trial_name,
        "task": result.task_name,
        "failure": result.failure.model_dump(mode="json") if result.failure else None,
    }
    extra = {**(trajectory.extra or {}), "harness": outcome}
    cleaned = strict_json.clean(trajectory.model_copy(update={"extra": extra}).model_dump(exclude_none=True))[0]
    Trajectory.model_validate(cleaned)
    return dict(cleaned)


def with_tokens(trajectory: Trajectory, calls: Calls, session: str = MAIN) -> Trajectory:
    """A trajectory whose steps hold their calls' tokens, those of its embedded sub-agents too."""
    return trajectory.model_copy(
        update={
            "steps": [_step_with(step, calls.get((session, step.step_id))) for step in trajectory.steps],
            "subagent_trajectories": [
                with_tokens(sub, calls, sub.trajectory_id or "") for sub in trajectory.subagent_trajectories
            ]
            if trajectory.subagent_trajectories
            else None,
        }
    )


def _step_with(step: Step, call: SampledCall | None) -> Step:
    if call is None or step.source != "agent" or step.llm_call_count == 0:
        return step
    tokens = {
        "prompt_token_ids": None if call.prompt_ids is None else list(call.prompt_ids),
        "completion_token_ids": None if call.completion_ids is None else list(call.completion_ids),
        "logprobs": None if call.logprobs is None else [round(value, 7) for value in call.logprobs],
    }
    return step.model_copy(update={"metrics": (step.metrics or Metrics()).model_copy(update=tokens)})


def self_contained(trajectory: Trajectory, folder: Path, root: Path) -> Trajectory:
    """A trajectory whose sub-agents in files below `root` are embedded. What lies elsewhere is left where it is."""
    embedded = {sub.trajectory_id: sub for sub in trajectory.subagent_trajectories or ()}

    def embed(ref: SubagentRef) -> SubagentRef:
        path = None if ref.trajectory_path is None else _below(root, folder / ref.trajectory_path)
        if ref.trajectory_id in embedded or path is None:
            return ref
        sub = self_contained(load_trajectory(path), path.parent, root)
        name = ref.trajectory_id or sub.trajectory_id or ref.session_id or path.stem
        while name in embedded:
            name += "_"
        embedded[name] = sub.model_copy(update={"trajectory_id": name})
        return ref.model_copy(update={"trajectory_id": name, "trajectory_path": None})

    def result_with(result: ObservationResult) -> ObservationResult:
        refs = [embed(ref) for ref in result.subagent_trajectory_ref or ()]
        return result.model_copy(update={"subagent_trajectory_ref": refs}) if refs else result

    steps = [
        step.model_copy(
            update={
                "observation": step.observation.model_copy(
                    update={"results": [result_with(result) for result in step.observation.results]}
                )
            }
        )
        if step.observation
        else step
        for step in trajectory.steps
    ]
    return trajectory.model_copy(update={"steps": steps, "subagent_trajectories": list(embedded.values()) or None})


def _below(root: Path, path: Path) -> Path | None:
    resolved = path.resolve()
    return resolved if packed.find(resolved) is not None and resolved.is_relative_to(root.resolve()) else None
