"""Many generations share each step, and every one is what it would be alone."""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from served_policy import Asked, checkpoint, running, tiny

from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.weights import with_weights
from trainer.rollout.engine import Closed, Engine, QueueFull
from trainer.rollout.sequence import Generation


@pytest.fixture(scope="module")
def policy() -> HuggingFacePolicy:
    return tiny()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, policy: HuggingFacePolicy) -> HuggingFacePolicy:
    return with_weights(policy, checkpoint(tmp_path_factory.mktemp("weights"), seed=5))


@pytest.fixture
def engine(policy: HuggingFacePolicy) -> Iterator[Engine]:
    with running(policy) as engine:
        yield engine


def prompts(number: int, *, seed: int = 0, longest: int = 90) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(256) for _ in range(rng.randint(1, longest))] for _ in range(number)]


def generated(policy: HuggingFacePolicy, prompt: list[int], tokens: int) -> list[int]:
    """What plain transformers says, greedily."""
    ids = torch.tensor([prompt])
    with torch.no_grad():
        whole = policy.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return list(whole[0, len(prompt) :].tolist())


def scored(policy: HuggingFacePolicy, generation: Generation, temperature: float = 1.0) -> list[float]:
    """The trainer's log-probabilities of what was sampled."""
    ids = torch.tensor([list(generation.tokens)])
    start = generation.prompt_length
    source = torch.arange(start - 1, ids.shape[1] - 1)
    heat = torch.full((len(source),), temperature)
    with torch.no_grad():
        logp, _, _ = policy.module(ids, source, ids[0, start:], heat)
    return list(logp.tolist())


def off(policy: HuggingFacePolicy, generation: Generation, temperature: float = 1.0) -> float:
    pairs = zip(generation.logprobs, scored(policy, generation, temperature), strict=True)
    return max(abs(one - other) for one, other in pairs)


def test_greedy_answers_equal_plain_generation_token_for_token(policy: HuggingFacePolicy, engine: Engine) -> None:
    asked = []
    for index, prompt in enumerate(prompts(16)):
        asked.append((prompt, Asked(engine, prompt, max_tokens=5 + 2 * index, temperature=0)))
        if index % 4 == 0:
            asked[-1][1].begun.wait(10)  # so that they join and leave at different times
    for index, (prompt, one) in enumerate(asked):
        assert list(one.result().sampled) == generated(policy, prompt, 5 + 2 * index)


@pytest.mark.parametrize(("mode", "temperature", "scored_at"), [("raw", 0.7, 1.0), ("processed", 0.7, 0.7)])
def test_the_trainer_finds_the_samplers_log_probabilities(
    policy: HuggingFacePolicy, mode: Any, temperature: float, scored_at: float
) -> None:
    with running(policy, logprobs_mode=mode) as engine:
        asked = [Asked(engine, each, max_tokens=30, temperature=temperature) for each in prompts(12)]
        assert max(off(policy, each.result(), scored_at) for each in asked) < 1e-4


def test_a_seed_samples_the_same_alone_and_in_company(engine: Engine) -> None:
    prompt = [1, 2, 3]
    alone = Asked(engine, prompt, max_tokens=20, seed=7).result().sampled
    crowd = [Asked(engine, each, max_tokens=20) for each in prompts(8)]
    among = Asked(engine, prompt, max_tokens=20, seed=7).result().sampled
    another = Asked(engine, prompt, max_tokens=20, seed=8).result().sampled
    assert alone == among != another
    assert all(each.result().finish == "length" for each in crowd)


def test_an_answer_ends_at_the_end_token_and_holds_it(engine: Engine) -> None:
    free = Asked(engine, [65, 66], max_tokens=12, temperature=0).result()
    end = free.sampled[4]
    ended = Asked(engine, [65, 66], max_tokens=12, temperature=0, ends=frozenset({end})).result()
    assert ended.finish == "stop"
    assert ended.sampled == free.sampled[: free.sampled.index(end) + 1]


def test_the_next_turn_reads_only_what_is_new(policy: HuggingFacePolicy, engine: Engine) -> None:
    first = Asked(engine, prompts(1, longest=90)[0] * 4, max_tokens=10).result()
    turn = [*first.tokens, 1, 2, 3]
    second = Asked(engine, turn, max_tokens=10, temperature=0).result()
    assert second.cached == len(first.tokens) - 1  # the last token that was sampled has not been read
    assert list(second.sampled) == generated(policy, turn, 10)
    assert off(policy, second) < 1e-4


def test_attempts_of_a_group_read_their_prompt_once(policy: HuggingFacePolicy, engine: Engine) -> None:
    prompt = prompts(1, seed=3)[0] * 10
    group = [Asked(engine, prompt, max_tokens=8).result for _ in range(8)]
    cached = [each().cached for each in group]
    assert cached.count(0) == 1
    assert cached.count(len(prompt) - 1) == 7
    assert max(off(policy, each()) for each in group) < 1e-4


def test_a_long_prompt_is_read_in_pieces_while_others_go_on(policy: HuggingFacePolicy, engine: Engine) -> None:
    short = Asked(engine, [1, 2, 3], max_tokens=60, temperature=0)
    short.begun.wait(10)
    prompt = [random.Random(1).randrange(256) for _ in range(1500)]
    long = Asked(engine, prompt, max_tokens=4, temperature=0)
    assert list(long.result().sampled) == generated(policy, prompt, 4)
    assert list(short.result().sampled) == generated(policy, [1, 2, 3], 60)


def test_running_answers_finish_on_the_weights_that_began_them(
    policy: HuggingFacePolicy, other: HuggingFacePolicy
) -> None:
    with running(policy, on_update="finish") as engine:
        old = [Asked(engine, each, max_tokens=150) for each in prompts(4)]
        assert all(each.begun.wait(10) for each in old)
        assert engine.update(other, "1") < 0.2
        new = [Asked(engine, each, max_tokens=20) for each in prompts(4)]
        assert [each.result().versions for each in new] == [[("1", 20)]] * 4
        assert [each.result().versions for each in old] == [[("0", 150)]] * 4
        assert max(off(policy, each.result()) for each in old) < 1e-4
        assert max(off(other, each.result()) for each in new) < 1e-4
        assert engine.state()["versions_at_work"] == ["1"]


def test_running_answers_continue_on_new_weights_and_every_token_is_of_its_version(
    policy: HuggingFacePolicy, other: HuggingFacePolicy
) -> None:
    with running(policy, on_update="continue") as engine:
        asked = [Asked(engine, each, max_tokens=150) for each in prompts(4)]
        assert all(each.begun.wait(10) for each in asked)
        engine.update(other, "1")
        for each in asked:
            generation = each.result()
            (_, first), (name, second) = generation.versions
            assert (name, first + second) == ("1", 150)
            expected = scored(policy, generation)[:first] + scored(other, generation)[first:]
            assert generation.logprobs == pytest.approx(expected, abs=1e-4)


def test_what_was_read_by_old_weights_is_not_used_by_new_ones(
    policy: HuggingFacePolicy, other: HuggingFacePolicy, engine: Engine
) -> None:
    prompt = prompts(1, seed=9)[0] * 3
    Asked(engine, prompt, max_tokens=5).result()
    engine.update(other, "1")
    again = Asked(engine, prompt, max_tokens=5).result()
    assert again.cached == 0
    assert off(other, again) < 1e-4


def test_what_nobody_waits_for_gives_its_place_free(policy: HuggingFacePolicy) -> None:
    with running(policy, max_running=1, max_waiting=1) as engine:
        endless = Asked(engine, [1, 2], max_tokens=3000)
        waiting = Asked(engine, [3, 4], max_tokens=3)
        assert endless.begun.wait(10)
        with pytest.raises(QueueFull):
            Asked(engine, [5, 6], max_tokens=3)
        engine.abandon(endless.generation)
        assert waiting.result().finish == "length"
        assert endless.generation.finish is None
        until(lambda: engine.state()["running"] == engine.state()["waiting"] == 0)


def test_a_step_that_fails_fails_its_answers_and_no_later_one(policy: HuggingFacePolicy, engine: Engine) -> None:
    wrong = Asked(engine, [10**6], max_tokens=3).result()  # no such token: the server lets none through
    assert (wrong.finish, list(wrong.sampled)) == ("error", [])
    assert wrong.trouble
    assert Asked(engine, [1, 2], max_tokens=3).result().finish == "length"


def test_an_engine_that_closes_ends_what_is_left_with_an_error(policy: HuggingFacePolicy) -> None:
    with running(policy) as engine:
        asked = Asked(engine, [1, 2], max_tokens=4000)
        assert asked.begun.wait(10)
    assert (asked.result().finish, asked.result().trouble) == ("error", "the server is shutting down")
    with pytest.raises(Closed):
        Asked(engine, [1, 2], max_tokens=3)


def test_memory_for_earlier_turns_is_bounded(policy: HuggingFacePolicy) -> None:
    with running(policy, prefix_bytes=200 * 1024) as engine:  # a token takes 1 KiB
        for prompt in prompts(6, longest=90, seed=2):
            Asked(engine, prompt, max_tokens=30).result()
        lane = engine._lanes[-1]
        held = lane._prefixes._held
        assert 0 < sum(len(array("i", key)) for key in held) <= 200
        assert all(stored[0][0].shape[1] == len(array("i", key)) for key, stored in held.items())


def until(true: Any, timeout: float = 10) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
