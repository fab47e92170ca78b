"""Running test.sh and taking its verdict, so that neither the agent nor a survivor of it can write one.

The tests are uploaded only now, into a folder emptied as root; the verifier's folder is made anew and seen to be
empty; and what test.sh left is printed by the very shell that ran it, the moment it ended. Files are read only if they
are regular files, and never through a link.
"""

from __future__ import annotations

import io
import secrets
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from backends.archive import pack
from backends.errors import SandboxError, SandboxOutOfMemory
from backends.protocol import SandboxBackendProtocol
from backends.spec import ExecuteResponse
from harness.errors import RewardMissing, VerifierError, VerifierKilled, VerifierTimeout, VerifierUnrunnable
from harness.records import Verification
from harness.task.model import Step
from harness.trial.reward import MAX_REWARD_BYTES, Reward, parse_reward
from harness.trial.shell import IS_EMPTY

TESTS = "/tests"
VERDICT = "/logs/verifier"
_REWARD_FILES = ("reward.json", "reward.txt", "status.json")
_OUTPUT_FILES = ("test-stdout.txt", "test-stderr.txt")
_INLINE_BYTES = 64 << 10
_TAIL_CHARACTERS = 4000
_MAX_PIPED_BYTES = 1 << 20
ROOT = frozenset({"root", "0", "0:0", "root:root"})
_NO_TAR, _NOT_PREPARED = 90, 91
_MAKE_RUNNABLE = f"chmod a+x {TESTS}/test.sh 2>/dev/null"
"""A task that lost its script's executable bit on the way is not to blame."""
_UNPACK = f"command -v tar >/dev/null || exit {_NO_TAR}\ntar -xf - -C {TESTS} --no-same-owner || exit {_NOT_PREPARED}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one verification gave: a reward or the reason for none, how it went, and the files that it left.

    `complete` tells that `files` is all there is in /logs.
    """

    reward: Reward | None
    error: VerifierError | SandboxError | None
    verification: Verification
    files: Mapping[str, bytes]
    complete: bool


async def verify(
    sandbox: SandboxBackendProtocol,
    step: Step,
    *,
    version: str,
    allowed: tuple[float, float],
    env: Mapping[str, str],
    timeout: float,
    helper_timeout: float,
    evidence: Mapping[str, bytes] | None = None,
    runs: int = 2,
) -> Judgement:
    """Verify a step of a task whose content is `version`. `evidence` are files by name, put into /tests with the tests.

    Trouble of the verifier's own is tried again, without the agent, `runs` times at most. Raises SandboxError when the
    sandbox fails outside test.sh.
    """
    for run in range(1, runs + 1):
        judgement = await _verify_once(
            sandbox,
            step,
            version=version,
            allowed=allowed,
            env=env,
            timeout=timeout,
            helper_timeout=helper_timeout,
            evidence=evidence or {},
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
    version: str,
    allowed: tuple[float, float],
    env: Mapping[str, str],
    timeout: float,
    helper_timeout: float,
    evidence: Mapping[str, bytes],
) -> Judgement:
    nonce = secrets.token_hex(8)
    run = _run_script(nonce, sandbox.workdir)
    max_output = 4 * (MAX_REWARD_BYTES + _INLINE_BYTES)
    tests = _packed(step.tests, version) if _verifier_is_root(sandbox, step) else None
    if tests is not None:
        # One command instead of three: what the verifier needs comes in through its standard input.
        script = f"{_prepare_script(step, None)}{_UNPACK}{run}"
        files = _with(tests, evidence)
        response = await sandbox.execute(script, timeout=timeout, env=env, cwd="/", stdin=files, max_output=max_output)
        if response.exit_code not in (_NO_TAR, _NOT_PREPARED) or response.stdout.startswith(nonce.encode()):
            return _judge(response, nonce, allowed, sandbox, timeout)
    await run_as_root(
        sandbox, _prepare_script(step, step.verifier_user), helper_timeout, "empty the verifier's folders"
    )
    for folder in step.tests:
        await sandbox.upload(folder, TESTS)
    for name, data in evidence.items():
        path = f"{TESTS}/{name}"
        place = f"mkdir -p {TESTS}; rm -rf {path}; cat > {path} && chmod 644 {path}"
        await run_as_root(sandbox, place, helper_timeout, f"hand {name} to the verifier", stdin=data)
    if step.verifier_user is not None:
        await run_as_root(sandbox, f"chmod -R a+rX {TESTS}; {_MAKE_RUNNABLE}; :", helper_timeout, "open /tests")
    user = step.verifier_user if sandbox.capabilities.users else None
    response = await sandbox.execute(run, timeout=timeout, env=env, cwd="/", user=user, max_output=max_output)
    return _judge(response, nonce, allowed, sandbox, timeout)


def _verifier_is_root(sandbox: SandboxBackendProtocol, step: Step) -> bool:
    if not sandbox.capabilities.users:
        return True
    return sandbox.user in ROOT and (step.verifier_user is None or step.verifier_user in ROOT)


@lru_cache(maxsize=64)
def _packed(tests: tuple[Path, ...], version: str) -> bytes | None:
    """The tests as a tar, remembered per version of the task, since its attempts share them.

    None if they are several folders, or too large to go through a pipe.
    """
    if len(tests) != 1 or sum(path.stat().st_size for path in tests[0].rglob("*")) > _MAX_PIPED_BYTES:
        return None
    with io.BytesIO() as file:
        pack(tests[0], file)
        return file.getvalue()


def _with(tests: bytes, evidence: Mapping[str, bytes]) -> bytes:
    """The tar with more files, which replace any of the same name since they come last."""
    if not evidence:
        return tests
    with io.BytesIO(tests) as file:
        with tarfile.open(fileobj=file, mode="a") as archive:
            for name, data in evidence.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        return file.getvalue()


async def hide_tests(sandbox: SandboxBackendProtocol, timeout: float) -> None:
    """Take the tests, the verdict and the last agent's logs away before the next step's agent starts."""
    script = empty_script((TESTS, VERDICT, "/logs/agent")) + f"rm -rf {VERDICT}\n"
    await run_as_root(sandbox, script, timeout, "hide the tests from the next step")


async def run_as_root(
    sandbox: SandboxBackendProtocol, script: str, timeout: float, what: str, *, stdin: bytes | None = None
) -> None:
    """A command of the harness's own, as root where there are users. Raises SandboxError if it fails."""
    root = "root" if sandbox.capabilities.users else None
    response = await sandbox.execute(script, timeout=timeout, cwd="/", user=root, stdin=stdin)
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
{IS_EMPTY}
if [ -L /logs ] || [ ! -d /logs ]; then rm -rf /logs; fi
for d in / /logs; do [ -r $d ] && [ -w $d ] && [ -x $d ] || chmod u+rwx $d 2>/dev/null; done
for d in {" ".join(folders)}; do
  if [ -L "$d" ] || [ ! -d "$d" ]; then rm -rf "$d"; mkdir -p "$d"; elif ! is_empty "$d"; then
    chmod -R u+rwX "$d" 2>/dev/null
    rm -rf "$d"/* "$d"/.[!.]* "$d"/..?*; fi
  is_empty "$d" || {{ echo "$d could not be emptied"; exit {_NOT_PREPARED}; }}
done
"""


def _prepare_script(step: Step, verifier_user: str | None) -> str:
    owned = (TESTS, VERDICT) if step.tests else (VERDICT,)  # without tests of its own, the verifier's image brings them
    owner = f"chown {shlex.quote(verifier_user)} {VERDICT}" if verifier_user else ":"
    return f"""{empty_script(owned)}preload=/etc/ld.so.preload
if [ -e $preload ] || [ -L $preload ]; then rm -f $preload 2>/dev/null; fi
chmod 755 {VERDICT} || exit {_NOT_PREPARED}
{owner}
"""


def _run_script(nonce: str, workdir: str) -> str:
    """Run test.sh, then print what it left: its exit code, the verdict's files, short output, and how much else."""
    kept = "|".join((*_REWARD_FILES, *_OUTPUT_FILES))
    return f"""{_MAKE_RUNNABLE}
cd {shlex.quote(workdir)} 2>/dev/null || cd /
{TESTS}/test.sh </dev/null >{VERDICT}/test-stdout.txt 2>{VERDICT}/test-stderr.txt
printf '%s exit %s\\n' {nonce} "$?"
cd {VERDICT} || exit 0
for name in {" ".join((*_REWARD_FILES, *_OUTPUT_FILES))}; do
  [ -f "$name" ] && [ ! -L "$name" ] || continue
  if [ ! -s "$name" ]; then printf '%s file %s 0\\n\\n%s end\\n' {nonce} "$name" {nonce}; continue; fi
  case $name in
    test-*) limit={_INLINE_BYTES} ;;
    *) limit={MAX_REWARD_BYTES} ;;
  esac
  printf '%s file %s %s\\n' {nonce} "$name" "$(wc -c < "$name" | tr -d ' ')"
  if [ "$name" = "${{name#test-}}" ]; then head -c {MAX_REWARD_BYTES + 1} "$name"; else tail -c "$limit" "$name"; fi
  printf '\\n%s end\\n' {nonce}
done
more=0
for name in * .[!.]* /logs/agent/* /logs/agent/.[!.]* /logs/artifacts/* /logs/artifacts/.[!.]*; do
  case $name in {kept}) continue ;; esac
  if [ -e "$name" ] || [ -L "$name" ]; then more=1; break; fi
done
printf '%s more %s\\n' {nonce} $more
"""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What the verifier's shell printed. `exit_code` is None if test.sh never ended; `complete` if nothing else lies
    in /logs that would have to be fetched."""

    exit_code: int | None
    files: dict[str, bytes]
    complete: bool


def _parse_snapshot(raw: bytes, nonce: str) -> _Snapshot:
    mark = nonce.encode()
    code: int | None = None
    files: dict[str, bytes] = {}
    whole = True
    head, _, rest = raw.partition(b"\n")
    if head.startswith(mark + b" exit "):
        code = int(head.rsplit(b" ", 1)[1])
    while rest.startswith(mark + b" file "):
        head, _, rest = rest.partition(b"\n")
        content, end, rest = rest.partition(b"\n" + mark + b" end\n")
        if not end:
            break
        name, size = head.split(b" ")[2:4]
        files[name.decode()] = content
        whole &= int(size) == len(content)
    return _Snapshot(code, files, whole and rest == mark + b" more 0\n")


def _judge(
    response: ExecuteResponse, nonce: str, allowed: tuple[float, float], sandbox: SandboxBackendProtocol, timeout: float
) -> Judgement:
    snapshot = _parse_snapshot(response.stdout, nonce)
    outputs = [snapshot.files.get(name, b"") for name in _OUTPUT_FILES]
    tail = "\n".join(part.decode("utf-8", "replace").strip() for part in outputs if part.strip())
    verification = Verification(
        exit_code=snapshot.exit_code,
        timed_out=response.timed_out,
        oom=response.oom,
        output_tail=tail[-_TAIL_CHARACTERS:],
    )
    reward: Reward | None = None
    error: VerifierError | SandboxError | None = None
    verdict = {name: content for name, content in snapshot.files.items() if name in _REWARD_FILES}
    if response.timed_out:
        error = VerifierTimeout(f"test.sh missed its deadline of {timeout:g} s")
    else:
        try:
            reward = parse_reward(verdict, allowed)
            _check_ending(reward, snapshot.exit_code, allowed)
        except (RewardMissing, VerifierKilled) as missing:
            reward, error = None, _no_reward(missing, snapshot.exit_code, response, sandbox)
        except VerifierError as invalid:
            error = invalid
    if reward is not None:
        found = {"source": reward.source, "headline": reward.headline, "conflict": reward.conflict}
        verification = verification.model_copy(update=found)
    return Judgement(
        reward=reward, error=error, verification=verification, files=snapshot.files, complete=snapshot.complete
    )


def _check_ending(reward: Reward, code: int | None, allowed: tuple[float, float]) -> None:
    """Raise VerifierKilled for a reward above the lowest that a signal cut off: a shell tells it as 128 and its number.

    Nothing runs beside test.sh but what it starts, which is the agent's work. Where that has the same user it can write
    a reward and kill its judge. So this is no verdict, and it counts as the agent's failure: to go missing would be
    worth more than the zero that was coming. A sample it is not, since test.sh may have shot itself.
    """
    if code is not None and 128 < code <= 192 and reward.value > allowed[0]:
        raise VerifierKilled(
            f"signal {code - 128} ended test.sh after a reward of {reward.value:g} was written (exit {code}); a script "
            "that means it ends by itself, with exit 0"
        )


def _no_reward(
    missing: RewardMissing | VerifierKilled,
    code: int | None,
    response: ExecuteResponse,
    sandbox: SandboxBackendProtocol,
) -> VerifierError | SandboxError:
    """Why no reward counts: memory, a script that was killed or could not run, or one that wrote none."""
    if response.oom:
        return SandboxOutOfMemory(
            "test.sh was killed for memory", backend=sandbox.backend, operation="verify", sandbox_id=sandbox.id
        )
    if isinstance(missing, VerifierKilled):
        return missing
    if code in (126, 127):
        return VerifierUnrunnable(
            f"/tests/test.sh could not be run (exit {code}): check its first line, its line ends and what it calls"
        )
    if code is None and (response.exit_code or 0) > 128:
        return VerifierKilled(
            f"the shell that ran test.sh was killed (exit {response.exit_code}), and its verdict with it"
        )
    if code is None:
        return VerifierError("the shell that ran test.sh ended before it could report")
    return RewardMissing(f"{missing} (test.sh ended with exit {code})")
