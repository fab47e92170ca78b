"""The agent that looks for commits a task is not at: what its git repositories would tell an agent of the solution."""

from __future__ import annotations

import json

from harness.agents.protocol import AgentResult, AgentRun

FOUND = "history.json"
"""In the agent's folder of the trial: one text for each thing that was found."""

# A repository is a folder with HEAD, objects and refs in it, bare or not. Reflogs keep what was reset away; fsck finds
# what nothing points to any more. Git refuses folders of other users unless it is told that they are safe.
_SCRIPT = r"""
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o -type f -name HEAD -print 2>/dev/null |
while IFS= read -r head; do
    repo=${head%/HEAD}
    [ -d "$repo/objects" ] && [ -d "$repo/refs" ] || continue
    if ! command -v git >/dev/null 2>&1; then
        echo "$repo: a repository, and no git in the image to look into it"
        continue
    fi
    g() { git --git-dir="$repo" "$@" 2>/dev/null; }
    g for-each-ref --no-merged HEAD --format='%(refname) is at %(objectname:short) %(subject)' | head -n 5 |
        while IFS= read -r ref; do echo "$repo: $ref"; done
    g config --get-regexp '^remote\..*\.url$' | head -n 5 |
        while IFS= read -r remote; do echo "$repo: ${remote%% *} is ${remote#* }"; done
    {
        g rev-list --reflog --not HEAD --all
        g fsck --unreachable --no-reflogs --no-progress | sed -n 's/^unreachable commit //p'
    } | sort -u | head -n 5 | while IFS= read -r commit; do
        echo "$repo: no branch holds $(g log -1 --format='%h %s' "$commit"), but it is still there"
    done
done
"""


class HistoryAgent:
    """Looks into every repository of the image as it is, and changes nothing."""

    name = "history"
    version = "1.0"
    model_name = None

    async def run(self, run: AgentRun) -> AgentResult:
        """Look, and keep what was found in the trial's folder."""
        run.trajectory.user(run.step.instruction)
        run.trajectory.agent("", llm_calls=0)
        done = await run.sandbox.execute(_SCRIPT, timeout=run.timeout_sec, user=run.step.agent_user)
        found = [run.redact(line) for line in done.output.splitlines()]
        if done.timed_out:
            found.append(f"not every repository could be looked into within {run.timeout_sec:g} s")
        (run.logs_dir / FOUND).write_text(json.dumps(found), encoding="utf-8")
        return AgentResult(detail=f"{len(found)} found")

    async def close(self) -> None:
        """Nothing to release."""
