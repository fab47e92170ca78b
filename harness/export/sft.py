"""Attempts as chats to imitate: JSON lines of messages, filtered by reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import __version__, strict_json
from harness.errors import UsageError
from harness.export.attempts import AttemptRef, find_attempts, open_jobs, read_attempt
from harness.export.chat import HasMedia, messages_of, trajectories
from harness.export.folder import export_folder, write_manifest
from harness.export.rows import reward_of
from harness.records import TrialResult

FILE = "chats.jsonl"


def export_sft(
    folders: Sequence[Path], target: Path, *, min_reward: float = 1.0, drop_media: bool = False
) -> Counter[str]:
    """Write the chats of every attempt with at least this reward; what became of the attempts, by reason.

    Raises UsageError for folders that are no jobs, for media that text would lose, and when there is no chat to write.
    """
    jobs = open_jobs(folders)
    attempts = find_attempts(jobs)
    counts: Counter[str] = Counter(attempts.unreadable)
    chats = 0
    with export_folder(target) as draft:
        with (draft / FILE).open("w", encoding="utf-8") as file:
            for ref in attempts.refs:
                result = read_attempt(ref)
                reason = "record_damaged" if result is None else _left_out(result, min_reward)
                if result is not None and reason is None:
                    lines = [strict_json.dumps(chat) for chat in _chats(ref, result, drop_media)]
                    file.writelines(f"{line}\n" for line in lines)
                    chats += len(lines)
                    reason = "kept" if lines else "no_trajectory"
                counts[str(reason)] += 1
        if not chats:
            listed = ", ".join(f"{count} {reason}" for reason, count in counts.most_common(5))
            raise UsageError(f"no attempt of {attempts.total} has a chat with a reward of {min_reward:g}: {listed}")
        write_manifest(
            draft,
            {
                "kind": "sft",
                "harness_version": __version__,
                "jobs": [str(job.paths.root.resolve()) for job in jobs],
                "options": {"min_reward": min_reward, "drop_media": drop_media},
                "files": [{"name": FILE, "bytes": (draft / FILE).stat().st_size}],
                "stats": {"attempts": attempts.total, "chats": chats, **counts},
            },
        )
    return counts


def _left_out(result: TrialResult, min_reward: float) -> str | None:
    reward, reason = reward_of(result)
    if reward is None:
        return reason
    return "reward_too_low" if reward < min_reward else None


def _chats(ref: AttemptRef, result: TrialResult, drop_media: bool) -> Iterator[dict[str, Any]]:
    """One chat for each session. `train` says of each message whether the model wrote it in this session."""
    for session, path, trajectory in trajectories(ref.paths, result):
        try:
            said = messages_of(trajectory, drop_media=drop_media)
        except HasMedia as error:
            raise HasMedia(f"{path}: {error}") from None
        if not any(each.sampled for each in said):
            continue
        chat = {
            "messages": [each.message for each in said],
            "train": [each.sampled for each in said],
            "tools": trajectory.agent.tool_definitions,
            "reward": reward_of(result)[0],
            "task": result.task_name,
            "group_id": ref.group_id,
            "rollout_id": f"{ref.job.name}/{ref.folder}",
            "session": session,
            "agent": result.agent_info.name,
            "model": trajectory.agent.model_name,
        }
        yield strict_json.clean(chat)[0]
