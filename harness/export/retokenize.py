"""Token ids made from text, for records that have none. They need not be what was sampled: every row says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Protocol

from harness.errors import UsageError, first_line
from harness.export.chat import Said, messages_of, trajectories
from harness.export.spelled import Cutter, encode_cut
from harness.export.template import for_template
from harness.records import TrialResult
from harness.store.layout import TrialPaths
from harness.store.rollout import SampledCall


class Tokenizer(Protocol):
    """What is asked of a tokenizer; those of `transformers` have it."""

    name_or_path: str

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        tokenize: bool,
    ) -> Any:
        """The conversation as text (`tokenize` False)."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The ids of a text."""

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""

    def get_vocab(self) -> dict[str, int]:
        """The id of each token."""


def load_tokenizer(name: str, *, option: str = "--retokenize", chat: bool = True) -> Tokenizer:
    """The tokenizer of that name or in that folder; `option` is what asked for it.

    Raises UsageError when there is none, or no chat template in it where `chat` needs one.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise UsageError(f"{option} needs the package 'transformers': pip install 'harness-rl[retokenize]'") from error
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {name}: no such tokenizer: {first_line(error)}") from error
    if chat and not getattr(tokenizer, "chat_template", None):
        raise UsageError(f"{option} {name}: the tokenizer has no chat template")
    return tokenizer  # type: ignore[no-any-return]


def retokenised_calls(paths: TrialPaths, result: TrialResult, tokenizer: Tokenizer) -> Iterator[SampledCall]:
    """Every answer of an attempt as if it had been sampled from the chat template's rendering of what came before."""
    cutter = Cutter(tokenizer)
    for session, _, trajectory in trajectories(paths, result):
        tools = trajectory.agent.tool_definitions
        said = messages_of(trajectory, drop_media=True)
        for number, each in enumerate(said):
            if each.sampled and number:
                call = _call(session, number, said, tools, tokenizer, cutter)
                if call is not None:
                    yield call


def _call(
    session: str,
    number: int,
    said: Sequence[Said],
    tools: list[dict[str, Any]] | None,
    tokenizer: Tokenizer,
    cutter: Cutter,
) -> SampledCall | None:
    def render(n_messages: int, *, ask: bool) -> str:
        return _render(
            [cutter.cut(for_template(each.message), each.message.get("role")) for each in said[:n_messages]],
            cutter.cut(tools),
            tokenizer,
            ask=ask,
        )

    def encode(text: str) -> list[int]:
        return encode_cut(text, lambda part: tokenizer.encode(part, add_special_tokens=False))

    before = render(number, ask=True)
    after = render(number + 1, ask=False)
    if not after.startswith(before):
        # The template does not leave history as it was asked for; what the answer adds to it is taken instead.
        before = render(number, ask=False)
    if not after.startswith(before):
        return None
    return SampledCall(
        call_id=f"{session}/{number}",
        session=session,
        prompt_ids=encode(before),
        completion_ids=encode(after[len(before) :]),
    )


def _render(
    conversation: list[dict[str, Any]], tools: list[dict[str, Any]] | None, tokenizer: Tokenizer, *, ask: bool
) -> str:
    try:
        text = tokenizer.apply_chat_template(conversation, tools=tools, add_generation_prompt=ask, tokenize=False)
    except Exception as error:  # a template is a program of its author's: whatever it raises, it refuses this chat
        raise UsageError(f"--retokenize {tokenizer.name_or_path}: its chat template refuses: {error}") from error
    return str(text)


def fingerprint_of(tokenizer: Tokenizer) -> str:
    """What tells two tokenizers apart: a digest of which id means what. Names and versions do not enter it."""
    digest = sha256()
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])):
        digest.update(f"{number}\t{token}\n".encode("utf-8", "surrogatepass"))
    return f"sha256:{digest.hexdigest()}"
