"""Running test.sh and taking its verdict, so that neither the agent nor a survivor of it can write one.

The tests are uploaded only now, into a folder emptied as root; the verifier's folder is made anew and seen to be
empty; and what test.sh left is printed by the very shell that ran it, the moment it ended. Files are read only if they
are regular files, and never through a link.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from backends.errors import SandboxError, SandboxOutOfMemory
from backends.protocol import SandboxBackendProtocol
from backends.spec import ExecuteResponse
from harness.errors import RewardMissing, VerifierError, VerifierTimeout, VerifierUnrunnable
from harness.records import Verification
from harness.task.model import Step
from harness.trial.reward import MAX_REWARD_BYTES, Reward, parse_reward

TESTS = "/tests"
VERDICT = "/logs/verifier"
_REWARD_FILES = ("reward.json", "reward.txt", "status.json")
_TAIL_BYTES = 4000
_MAKE_RUNNABLE = f"chmod a+x {TESTS}/test.sh 2>/dev/null"
"""A task that lost its script's executable bit on the way is not to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one verification gave: a reward or the reason for none, how it went, and the verdict's files."""

    reward: Reward | None
    error: VerifierError | SandboxError | None
    verification: Verification
    files: Mapping[str, bytes]


async def verify(
    sandbox: SandboxBackendProtocol,
    step: Step,
    *,
    allowed: tuple[float, float],
    env: Mapping[str, str],
    timeout: float,
    helper_timeout: float,
    runs: int = 2,
) -> Judgement:
    """Verify a step; trouble of the verifier's own is tried again, without the agent, `runs` times at most.

    Raises SandboxError when the sandbox fails outside test.sh.
    """
    for run in range(1, runs + 1):
        judgement = await _verify_once(
            sandbox, step, allowed=allowed, env=env, timeout=timeout, helper_timeout=helper_timeout
        )
        judgement = replace(judgement, verification=judgement.verification.model_copy(update={"runs": run}))
        if not isinstance(judgement.error, VerifierTimeout | SandboxOutOfMemory) or run == runs:
            return judgement
        await sandbox.kill_processes()
    raise AssertionError("unreachable")


async def _verify_once(
    sandbox: SandboxBackendProtocol,
    step: Step,
    *,
    allowed: tuple[float, float],
    env: Mapping[str, str],
    timeout: float,
    helper_timeout: float,
) -> Judgement:
    owned = (TESTS, VERDICT) if step.tests else (VERDICT,)  # without tests of its own, the verifier's image brings them
    await run_as_root(
        sandbox, _prepare_script(owned, step.verifier_user), helper_timeout, "empty the verifier's folders"
    )
    for folder in step.tests:
        await sandbox.upload(folder, TESTS)
    if step.verifier_user is not None:
        await run_as_root(sandbox, f"chmod -R a+rX {TESTS}; {_MAKE_RUNNABLE}; :", helper_timeout, "open /tests")
    nonce = secrets.token_hex(8)
    response = await sandbox.execute(
        _run_script(nonce, sandbox.workdir),
        timeout=timeout,
        env=env,
        cwd="/",
        user=step.verifier_user if sandbox.capabilities.users else None,
        max_output=4 * (MAX_REWARD_BYTES + _TAIL_BYTES),
    )
    return _judge(response, nonce, allowed, sandbox, timeout)


async def hide_tests(sandbox: SandboxBackendProtocol, timeout: float) -> None:
    """Take the tests, the verdict and the last agent's logs away before the next step's agent starts."""
    script = empty_script((TESTS, VERDICT, "/logs/agent")) + f"rm -rf {VERDICT}\n"
    await run_as_root(sandbox, script, timeout, "hide the tests from the next step")


async def run_as_root(sandbox: SandboxBackendProtocol, script: str, timeout: float, what: str) -> None:
    """A command of the harness's own, as root where there are users. Raises SandboxError if it fails."""
    root = "root" if sandbox.capabilities.users else None
    response = await sandbox.execute(script, timeout=timeout, cwd="/", user=root)
    if response.exit_code != 0:
        raise SandboxError(
            f"could not {what}: exit {response.exit_code}: {response.output[-500:]}",
            backend=sandbox.backend,
            operation="verify",
            sandbox_id=sandbox.id,
        )


def empty_script(folders: Sequence[str]) -> str:
    """Make each folder anew where it is a link or missing, empty it else, and fail unless it really is empty.

    Modes are set first: where there is only one user, an agent's read-only folder is read-only for us as well.
    """
    return f"""set -u
[ -L /logs ] && rm -f /logs
chmod u+rwx / /logs 2>/dev/null
for d in {" ".join(folders)}; do
  if [ -L "$d" ] || [ ! -d "$d" ]; then rm -rf "$d"; mkdir -p "$d"; else
    chmod -R u+rwX "$d" 2>/dev/null
    rm -rf "$d"/* "$d"/.[!.]* "$d"/..?*; fi
  [ -z "$(ls -A "$d")" ] || {{ echo "$d could not be emptied"; exit 1; }}
done
"""


def _prepare_script(owned: Sequence[str], verifier_user: str | None) -> str:
    owner = f"chown {shlex.quote(verifier_user)} {VERDICT}" if verifier_user else ":"
    return f"{empty_script(owned)}rm -f /etc/ld.so.preload 2>/dev/null\nchmod 755 {VERDICT} || exit 1\n{owner}\n"


def _run_script(nonce: str, workdir: str) -> str:
    names = " ".join(_REWARD_FILES)
    return f"""{_MAKE_RUNNABLE}
cd {shlex.quote(workdir)} 2>/dev/null || cd /
{TESTS}/test.sh </dev/null >{VERDICT}/test-stdout.txt 2>{VERDICT}/test-stderr.txt
printf '%s exit %s\\n' {nonce} "$?"
cd {VERDICT} || exit 0
for name in {names} test-stdout.txt test-stderr.txt; do
  [ -f "$name" ] && [ ! -L "$name" ] || continue
  case $name in
    test-*) text=$(tail -c {_TAIL_BYTES} "$name" | tr -d '\\000'; printf .)
            text=${{text%.}}; printf '%s file %s\\n%s\\n%s end\\n' {nonce} "$name" "$text" {nonce} ;;
    *) printf '%s file %s\\n' {nonce} "$name"; head -c {MAX_REWARD_BYTES + 1} "$name"
       printf '\\n%s end\\n' {nonce} ;;
  esac
done
"""


def _parse_snapshot(raw: bytes, nonce: str) -> tuple[int | None, dict[str, bytes]]:
    """The exit code of test.sh and the files that the shell printed; None if test.sh never ended."""
    mark = nonce.encode()
    code: int | None = None
    files: dict[str, bytes] = {}
    head, _, rest = raw.partition(b"\n")
    if head.startswith(mark + b" exit "):
        code = int(head.rsplit(b" ", 1)[1])
    while rest.startswith(mark + b" file "):
        head, _, rest = rest.partition(b"\n")
        content, end, rest = rest.partition(b"\n" + mark + b" end\n")
        if not end:
            break
        files[head.rsplit(b" ", 1)[1].decode()] = content
    return code, files


def _judge(
    response: ExecuteResponse, nonce: str, allowed: tuple[float, float], sandbox: SandboxBackendProtocol, timeout: float
) -> Judgement:
    code, files = _parse_snapshot(response.stdout, nonce)
    stdout, stderr = files.pop("test-stdout.txt", b""), files.pop("test-stderr.txt", b"")
    tail = "\n".join(part.decode("utf-8", "replace").strip() for part in (stdout, stderr) if part.strip())
    verification = Verification(
        exit_code=code, timed_out=response.timed_out, oom=response.oom, output_tail=tail[-_TAIL_BYTES:]
    )
    if response.timed_out:
        error: VerifierError | SandboxError = VerifierTimeout(f"test.sh missed its deadline of {timeout:g} s")
        return Judgement(reward=None, error=error, verification=verification, files=files)
    try:
        reward = parse_reward(files, allowed)
    except RewardMissing as missing:
        return Judgement(
            reward=None, error=_no_reward(missing, code, response, sandbox), verification=verification, files=files
        )
    except VerifierError as invalid:
        return Judgement(reward=None, error=invalid, verification=verification, files=files)
    verification = verification.model_copy(
        update={"source": reward.source, "headline": reward.headline, "conflict": reward.conflict}
    )
    return Judgement(reward=reward, error=None, verification=verification, files=files)


def _no_reward(
    missing: RewardMissing, code: int | None, response: ExecuteResponse, sandbox: SandboxBackendProtocol
) -> VerifierError | SandboxError:
    """Why there is no reward: memory, a script that could not run, or a script that wrote none."""
    if response.oom:
        return SandboxOutOfMemory(
            "test.sh was killed for memory", backend=sandbox.backend, operation="verify", sandbox_id=sandbox.id
        )
    if code in (126, 127):
        return VerifierUnrunnable(
            f"/tests/test.sh could not be run (exit {code}): check its first line, its line ends and what it calls"
        )
    if code is None:
        return VerifierError("the shell that ran test.sh was killed before it could report")
    return RewardMissing(f"{missing} (test.sh ended with exit {code})")
