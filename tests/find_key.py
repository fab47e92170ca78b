"""A task family for a byte-level policy, simulated: one of three files holds a key, which has to be put back.

The policy reads a prompt and answers in turns that end with a newline: `cat F` shows a file, `put XXXX` hands a key
in, `end` stops. Reward 1 if the last key put is the right one. Rollouts go in lockstep: every row consumes one token a
step, sampled or forced, so that nothing is padded and every id and log-probability is recorded as it was sampled.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import torch

from harness.export.schema import RLSample, Span

FILES, TURNS, KEY, END = "abc", 4, 4, ord("\n")


@dataclass
class Episode:
    """One attempt: what is known of the task, and what happened so far."""

    seed: int
    holder: str = ""
    key: str = ""
    tokens: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)
    line: str = ""
    turn: int = 0
    last: str | None = None
    done: bool = False

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.holder, self.key = rng.choice(FILES), "".join(rng.choice("klmnopqr") for _ in range(KEY))
        self.forced = [*b"find\n"]

    @property
    def reward(self) -> float:
        """1 for the right key."""
        return float(self.last == self.key)

    def take(self, token: int, logprob: float | None) -> None:
        """One more token; None for one that was not sampled."""
        self.tokens.append(token)
        self.sampled.append(logprob is not None)
        self.logprobs.append(nan if logprob is None else logprob)
        self.chunks.append(-1 if logprob is None else self.turn)
        if logprob is None:
            return
        if token != END and len(self.line) < 12:
            self.line += chr(token)
            return
        self._act()

    def _act(self) -> None:
        line, self.line, self.turn = self.line, "", self.turn + 1
        said = b""
        if line == "end" or self.turn >= TURNS:
            self.done = True
        if line.startswith("put "):
            self.last = line[4:]
            said = b"ok\n"
        elif line.startswith("cat ") and line[4:] in FILES and len(line) == 5:
            said = f"key {self.key}\n".encode() if line[4:] == self.holder else b"none\n"
        elif line != "end":
            said = b"err\n"
        if not self.done:
            self.forced = list(said)


def rollouts(model: Any, seeds: Sequence[int], *, generator: torch.Generator, greedy: bool = False) -> list[Episode]:
    """One episode for each seed, all at once."""
    episodes = [Episode(seed) for seed in seeds]
    cache, ids = None, None
    with torch.no_grad():
        for _ in range(120):
            logp = None
            if ids is not None:
                out = model(input_ids=ids, cache=cache, use_cache=True)
                logits, cache = out.logits[:, -1], out.cache
                logp = logits.log_softmax(-1)
                drawn = logits.argmax(-1) if greedy else torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
                chosen = logp.gather(1, drawn[:, None])[:, 0].tolist()
                picks = drawn.tolist()
            step = []
            for number, episode in enumerate(episodes):
                if episode.done:
                    step.append(END)
                elif episode.forced:
                    step.append(episode.forced.pop(0))
                    episode.take(step[-1], None)
                else:
                    step.append(picks[number])
                    episode.take(step[-1], chosen[number])
            if all(episode.done for episode in episodes):
                break
            ids = torch.tensor(step)[:, None]
    return episodes


def scripted(seed: int, *, expert: bool) -> Episode:
    """What a demonstrator does: the right thing, or valid commands at random."""
    episode, rng = Episode(seed), random.Random(seed + 1_000_003)
    files = list(FILES)
    rng.shuffle(files)
    seen = ""
    while not episode.done:
        while episode.forced:
            episode.take(episode.forced.pop(0), None)
        if expert:
            line = f"put {episode.key}" if seen == episode.holder else f"cat {(seen := files.pop())}"
            line = "end" if episode.last else line
        else:
            guess = "".join(rng.choice("klmnopqr") for _ in range(KEY))
            line = rng.choice([f"cat {rng.choice(FILES)}", f"put {episode.key if seen else guess}", "end"])
            seen = episode.holder if line == f"cat {episode.holder}" else seen
        for token in [*line.encode(), END]:
            episode.take(token, -1.0)
    return episode


def row_of(episode: Episode, *, task: int, attempt: int, attempts: int) -> RLSample:
    """The episode as an exported row."""
    spans: list[Span] = []
    for place, chunk in enumerate(episode.chunks):
        if spans and spans[-1].chunk == chunk:
            spans[-1] = Span(start=spans[-1].start, end=place + 1, kind=spans[-1].kind, chunk=chunk)
        else:
            spans.append(Span(start=place, end=place + 1, kind="context" if chunk < 0 else "sampled", chunk=chunk))
    rollout = f"job/{task}__{attempt}"
    return RLSample(
        sample_id=f"{rollout}#0",
        group_id=f"find-{task}",
        group_size=attempts,
        group_missing=0,
        rollout_id=rollout,
        token_ids=array("i", episode.tokens),
        loss_mask=array("b", episode.sampled),
        logprobs=array("f", episode.logprobs),
        policy_index=array("h", [0 if each else -1 for each in episode.sampled]),
        policy_versions=("0",),
        chunk_ids=array("i", episode.chunks),
        spans=tuple(spans),
        temperature=1.0,
        top_p=1.0,
        logprobs_mode="raw",
        finish_reason="stop",
        reward=episode.reward,
        outcome="scored",
        trainable=True,
        job="job",
        trial=f"{task}__{attempt}",
        task=f"find-{task}",
        task_digest="sha256:0",
        attempt=attempt,
        agent="find-key",
        agent_version="1",
        harness_version="0",
    )
