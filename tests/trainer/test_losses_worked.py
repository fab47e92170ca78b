"""Every objective against numbers worked by hand from its paper."""

from __future__ import annotations

import math

import pytest
import torch
from loss_tokens import coefficients, tokens

from trainer.losses.cispo import CispoConfig, cispo
from trainer.losses.clip import ClipConfig, clipped_surrogate
from trainer.losses.correction import CorrectionConfig, correction_weight
from trainer.losses.diversity import DiversityConfig, diversity_bonus
from trainer.losses.glm import GlmConfig, double_sided_mask
from trainer.losses.gspo import GspoConfig, gspo
from trainer.losses.ipa import IpaConfig, ipa_chunk
from trainer.losses.k2 import K2Config, k2_token_clip
from trainer.losses.kl import kl_estimate
from trainer.losses.reinforce import ReinforceConfig, reinforce
from trainer.losses.sft import SftConfig, sft
from trainer.losses.topr import ToprConfig, topr
from trainer.losses.value import value_loss
from trainer.losses.weights import StepCounts, row_weights


def logs(*ratios: float) -> list[float]:
    return [math.log(ratio) for ratio in ratios]


def test_cispo_clips_the_weight_and_keeps_every_gradient() -> None:
    batch = tokens(logs(0.05, 0.8, 1.5, 8.0))
    assert coefficients(cispo(batch, CispoConfig()).loss, batch) == pytest.approx([0.05, 0.8, 1.5, 5.0])


def test_ppo_has_no_gradient_where_cispo_has_one() -> None:
    batch = tokens(logs(1.5))
    assert coefficients(clipped_surrogate(batch, ClipConfig()).loss, batch) == [0.0]
    assert coefficients(cispo(batch, CispoConfig()).loss, batch) == pytest.approx([1.5])


def test_cispo_sends_no_gradient_through_its_weight() -> None:
    batch = tokens(logs(1.5), logp=-0.2)
    assert coefficients(cispo(batch, CispoConfig()).loss, batch) == pytest.approx([1.5])  # not 1.5 * (1 + logp)


def test_the_unified_mask_of_cispo_is_ppos_trust_region() -> None:
    batch = tokens(logs(1.5, 1.5, 0.5, 0.5), [1, -1, 1, -1])
    loss = cispo(batch, CispoConfig(ratio_min=0.8, ratio_max=1.2, unified_mask=True))
    assert coefficients(loss.loss, batch) == pytest.approx([0, -1.2, 0.8, 0])


def test_ppo_clips_only_where_the_step_would_go_further() -> None:
    batch = tokens(logs(1.5, 1.5, 0.5, 0.5), [1, -1, 1, -1])
    result = clipped_surrogate(batch, ClipConfig())
    assert result.loss.tolist() == pytest.approx([-1.2, 1.5, -0.5, 0.8])
    assert coefficients(result.loss, batch) == pytest.approx([0, -1.5, 0.5, 0])


def test_clip_higher_lets_a_rare_token_rise_further() -> None:
    old, high = 0.01, ClipConfig(ratio_max=1.28)
    for ratio, moves in ((1.27, True), (1.29, False)):
        batch = tokens(logs(ratio))
        assert (coefficients(clipped_surrogate(batch, high).loss, batch) != [0.0]) is moves
    assert old * high.ratio_max == pytest.approx(0.0128)


def test_dual_clip_bounds_the_loss_of_a_bad_token() -> None:
    batch = tokens(logs(10.0, 2.0), -1.0)
    result = clipped_surrogate(batch, ClipConfig(dual_clip=3.0))
    assert result.loss.tolist() == pytest.approx([3.0, 2.0])
    assert coefficients(result.loss, batch) == pytest.approx([0.0, -2.0])


@pytest.mark.parametrize("log_ratio", [200.0, -200.0, 1e4, -1e4])
def test_a_clipped_token_has_no_gradient_even_when_its_ratio_overflows(log_ratio: float) -> None:
    batch = tokens([log_ratio])
    for loss in (clipped_surrogate(batch, ClipConfig()).loss, k2_token_clip(batch, K2Config(penalty=0)).loss):
        assert all(math.isfinite(each) for each in coefficients(loss, batch))


def test_gspo_clips_the_geometric_mean_of_a_sequence() -> None:
    batch = tokens([0.02, -0.01, 0.05])
    result = gspo(batch, GspoConfig())
    assert (-result.loss).tolist() == pytest.approx([1.0004] * 3)
    unclipped = gspo(batch, GspoConfig(ratio_max=2.0))
    assert (-unclipped.loss).tolist() == pytest.approx([1.0202] * 3, abs=1e-4)
    assert coefficients(unclipped.loss, batch) == pytest.approx([math.exp(0.02)] * 3)


def test_k2_masks_by_log_ratio_whatever_the_sign_and_pulls_back_what_it_masks() -> None:
    config = K2Config(penalty=0.1)
    batch = tokens([0.1, 0.1, 0.8, 0.8, -0.9, -0.9], [1, -1, 1, -1, 1, -1])
    assert coefficients(k2_token_clip(batch, config).loss, batch) == pytest.approx(
        [1.08517, -1.12517, -0.16, -0.16, 0.18, 0.18], abs=1e-5
    )


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_glm_masks_an_open_interval_on_both_sides(advantage: float) -> None:
    ratios = (0.79, 0.80, 0.81, 1.0, 1.27, 1.28, 1.29)
    batch = tokens(logs(*ratios), advantage)
    weights = [0, 0, 0.81, 1, 1.27, 0, 0]
    assert coefficients(double_sided_mask(batch, GlmConfig()).loss, batch) == pytest.approx(
        [advantage * weight for weight in weights], abs=1e-9
    )


def test_topr_truncates_only_what_did_not_work() -> None:
    batch = tokens(logs(2.0, 2.0, 0.5, 0.5), [1, -1, 1, -1], rows=[0, 1, 2, 3], positive=[True, False, True, False])
    assert coefficients(topr(batch, ToprConfig()).loss, batch) == pytest.approx([1, -1, 1, -0.5])


def test_positive_only_training_has_no_gradient_from_failures() -> None:
    batch = tokens([0.0] * 4, [1, 1, 0, 0], rows=[0, 1, 2, 3], positive=[True, True, False, False])
    assert coefficients(topr(batch, ToprConfig(negative_weight=0)).loss, batch) == pytest.approx([1, 1, 0, 0])


def test_ipa_weighs_a_failed_chunk_by_its_geometric_ratio() -> None:
    up, down = [0.2, -0.1, 0.5], [-0.3, -0.3, -0.3]
    batch = tokens(up + down, -0.9, chunks=[0, 0, 0, 1, 1, 1], positive=False)
    assert coefficients(ipa_chunk(batch, IpaConfig()).loss, batch) == pytest.approx(
        [-0.9] * 3 + [-0.66674] * 3, abs=1e-4
    )


def test_ipa_ignores_the_ratio_of_a_chunk_that_worked() -> None:
    batch = tokens([0.2, -0.3], 0.81, chunks=[0, 1])
    assert coefficients(ipa_chunk(batch, IpaConfig()).loss, batch) == pytest.approx([0.81, 0.81])


def test_ipa_masks_a_whole_chunk_or_none_of_it() -> None:
    mismatch = [0.05, 0.05, 0.65, 0.9, -0.9]  # geometric means 1.284 and 1
    batch = tokens([0.0] * 5, chunks=[0, 0, 0, 1, 1], mismatch=mismatch)
    result = ipa_chunk(batch, IpaConfig(mismatch_max=1.25))
    assert coefficients(result.loss, batch) == pytest.approx([0, 0, 0, 1, 1])
    assert result.flags["masked"].tolist() == [True] * 3 + [False] * 2


def test_ipa_mixes_in_the_likelihood_of_what_worked() -> None:
    batch = tokens([0.0, 0.0], [0.5, -0.5], rows=[0, 1], positive=[True, False])
    assert coefficients(ipa_chunk(batch, IpaConfig(imitation_weight=0.3)).loss, batch) == pytest.approx([0.8, -0.5])


def test_at_ratio_one_every_policy_objective_is_reinforce() -> None:
    def gradient(objective, config) -> list[float]:  # type: ignore[no-untyped-def]
        batch = tokens([0.0] * 4, [1, -1, 0.5, 2], rows=[0, 0, 1, 1], positive=[True, False, True, True])
        return coefficients(objective(batch, config).loss, batch)

    expected = gradient(reinforce, ReinforceConfig())
    assert expected == pytest.approx([1, -1, 0.5, 2])
    pairs = [
        (clipped_surrogate, ClipConfig()),
        (cispo, CispoConfig()),
        (k2_token_clip, K2Config()),
        (double_sided_mask, GlmConfig()),
        (topr, ToprConfig()),
        (ipa_chunk, IpaConfig()),
        (gspo, GspoConfig()),
    ]
    for objective, config in pairs:
        assert gradient(objective, config) == pytest.approx(expected), objective.__name__


def test_supervised_training_learns_from_what_worked() -> None:
    batch = tokens([0.3, 0.3], rows=[0, 1], positive=[True, False])
    assert coefficients(sft(batch, SftConfig()).loss, batch) == [1.0, 0.0]
    assert coefficients(sft(batch, SftConfig(positive_only=False)).loss, batch) == [1.0, 1.0]


def test_truncated_importance_sampling_holds_the_weight_and_icepop_drops_it() -> None:
    batch = tokens([0.0] * 4, mismatch=logs(0.4, 1.0, 1.9, 3.0))
    weight, cut = correction_weight(batch, CorrectionConfig(kind="tis"))
    assert weight.tolist() == pytest.approx([0.4, 1.0, 1.9, 2.0])
    assert cut.tolist() == [False, False, False, True]
    weight, _ = correction_weight(batch, CorrectionConfig(kind="icepop"))
    assert weight.tolist() == pytest.approx([0, 1.0, 1.9, 0])
    weight, _ = correction_weight(batch, CorrectionConfig(level="row", weight_max=5))
    assert weight.tolist() == pytest.approx([(0.4 * 1.9 * 3.0) ** 0.25] * 4)


def test_a_correction_without_a_proximal_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="proximal"):
        correction_weight(tokens([0.0]), CorrectionConfig())


def test_kl_estimates_are_schulmans() -> None:
    difference = torch.tensor([0.0, 0.1, -0.2], dtype=torch.float64)
    reference = torch.zeros(3, dtype=torch.float64)
    # as of the sampler: d = trainer - sampler, so logp = 0 and reference = d
    assert kl_estimate(reference, difference, "k3").mean().item() == pytest.approx(0.0079672, abs=1e-7)
    assert kl_estimate(reference, difference, "k1").mean().item() == pytest.approx(0.1 / 3)
    assert kl_estimate(difference, reference, "k2").tolist() == pytest.approx([0, 0.005, 0.02])


def test_the_diversity_bonus_lowers_the_likelihood_of_successes_only() -> None:
    batch = tokens([0.0, 0.0], rows=[0, 1], positive=[True, False], logp=-1.0)
    assert coefficients(diversity_bonus(batch, DiversityConfig(weight=0.01)), batch) == pytest.approx([0.0, 0.0])
    batch = tokens([0.0], logp=-3.0)  # d/dx x e^(x - x0) = 1 + x at x0
    assert coefficients(diversity_bonus(batch, DiversityConfig(weight=0.01)), batch) == pytest.approx([0.02])


def test_the_value_loss_is_the_larger_of_free_and_held() -> None:
    value, old, returns = (torch.tensor([each]) for each in (1.0, 0.0, 0.0))
    assert value_loss(value, old, returns).item() == pytest.approx(0.5)
    assert value_loss(value, old, torch.tensor([1.0])).item() == pytest.approx(0.32)  # (0.2 - 1)^2 / 2
    assert value_loss(value, old, torch.tensor([1.0]), clip=None).item() == 0.0


def test_weights_say_whether_tokens_or_rollouts_count_alike() -> None:
    counts = StepCounts(tokens=10, rollouts=2)  # two rollouts of 2 and 8 tokens; per-token losses 1 and 0

    def loss(weighting, **more) -> float:  # type: ignore[no-untyped-def]
        short, _ = row_weights(weighting, rollout_tokens=[2, 8], counts=counts, **more)
        return 2 * 1.0 * short

    assert loss("rollout") == pytest.approx(0.5)
    assert loss("token") == pytest.approx(0.2)
    assert loss("constant", max_tokens=10) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="max_tokens"):
        loss("constant")


def test_two_sequences_of_two_and_six_tokens_weigh_an_eighth_each_in_cispo() -> None:
    assert row_weights("token", rollout_tokens=[2, 6], counts=StepCounts(tokens=8, rollouts=2)) == [0.125, 0.125]


def test_the_branches_of_one_rollout_share_its_weight() -> None:
    whole = row_weights("rollout", rollout_tokens=[6, 4], counts=StepCounts(tokens=10, rollouts=2))
    split = row_weights("rollout", rollout_tokens=[6, 6, 4], counts=StepCounts(tokens=10, rollouts=2))
    assert split == [whole[0], whole[0], whole[1]]


@pytest.mark.parametrize("config", [ClipConfig, CispoConfig])
def test_bounds_of_a_ratio_enclose_one(config: type[ClipConfig] | type[CispoConfig]) -> None:
    with pytest.raises(ValueError, match="enclose 1"):
        config(ratio_min=0.0, ratio_max=0.28)  # an offset, mistaken for a bound
