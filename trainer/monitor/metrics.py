"""Every number that a step may log: its name, unit, and what it says. The one table of them.

A number that is unknown is null. Names that end in `_` begin a family: `filtered_stale` is one of `filtered_`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, its unit ("" is a plain number, "share" lies in [0, 1]), the family it is shown in, what it says."""

    name: str
    unit: str
    family: str
    says: str


LEARNING, EXPLORATION, SIGNAL, DRIFT, LENGTHS, COST, FILTERS = (
    *("learning", "exploration", "signal", "drift", "lengths", "cost", "filters"),
)

METRICS: tuple[Metric, ...] = (
    Metric("step", "", LEARNING, "optimiser steps done"),
    Metric("epoch", "", LEARNING, "passes over the export"),
    Metric("reward_mean", "", LEARNING, "valid rewards of the step, attempts without signal included"),
    Metric("reward_std", "", LEARNING, "their spread"),
    Metric("loss", "", LEARNING, "sum of its parts, as weighted; its value need not fall"),
    Metric("loss_", "", LEARNING, "one part of the loss"),
    Metric("value_mean", "", LEARNING, "what the critic expected, over trained tokens"),
    Metric("explained_variance", "", LEARNING, "of the returns' variance, the part that the critic told; 1 is all"),
    Metric("grad_norm", "", LEARNING, "of the whole gradient, before clipping; the largest of the step's updates"),
    Metric("learning_rate", "", LEARNING, "of the last update"),
    Metric("updates", "", LEARNING, "optimiser updates"),
    Metric("skipped", "", LEARNING, "updates left out because no gradient was finite"),
    Metric("entropy", "nats", EXPLORATION, "of the policy, over trained tokens"),
    Metric("distinct_1", "share", EXPLORATION, "different tool calls over all, within a task"),
    Metric("distinct_2", "share", EXPLORATION, "different pairs of consecutive tool calls over all, within a task"),
    Metric("unique_sequences", "share", EXPLORATION, "different sequences of tool calls over attempts, within a task"),
    Metric("self_bleu", "share", EXPLORATION, "how much attempts at a task repeat each other's runs of tool calls"),
    Metric("edit_distance", "share", EXPLORATION, "mean normalised edit distance between a task's attempts"),
    Metric("strategies", "", EXPLORATION, "effective number of strategies among a task's attempts (Vendi score)"),
    Metric("pass_1", "share", EXPLORATION, "of a group's valid attempts that succeed, over all groups seen"),
    Metric("pass_any", "share", EXPLORATION, "groups of which any attempt succeeds: pass@k, k the group's attempts"),
    Metric("potential", "share", EXPLORATION, "the same where one attempt is not enough: Potential@k"),
    Metric("invalid_call_share", "share", EXPLORATION, "tool calls that were refused for their form"),
    Metric("failed_call_share", "share", EXPLORATION, "tool calls that failed"),
    Metric("looped_call_share", "share", EXPLORATION, "tool calls in unproductive loops"),
    Metric("groups", "", SIGNAL, "groups that the step was made from"),
    Metric("rollouts", "", SIGNAL, "attempts in the loss"),
    Metric("rows", "", SIGNAL, "branches in the loss"),
    Metric("branches_per_rollout", "", SIGNAL, "rows of an attempt"),
    Metric("effective_group_ratio", "share", SIGNAL, "groups whose rewards differ, of all seen with a reward"),
    Metric("advantage_mean", "", SIGNAL, "over trained tokens"),
    Metric("advantage_abs_mean", "", SIGNAL, "over trained tokens"),
    Metric("positive_token_share", "share", SIGNAL, "trained tokens that are made more likely"),
    Metric("negative_token_share", "share", SIGNAL, "trained tokens that are made less likely"),
    Metric("negative_gradient_share", "share", SIGNAL, "of sum |advantage| over tokens, the part of the negative ones"),
    Metric("top_gradient_share", "share", SIGNAL, "the same, of the heaviest 1 % of attempts (at least one)"),
    Metric("positive_rollouts", "", SIGNAL, "attempts in the loss with a positive outcome"),
    Metric("negative_rollouts", "", SIGNAL, "attempts in the loss without"),
    Metric("ratio_mean", "", DRIFT, "of the importance ratio"),
    Metric("ratio_min", "", DRIFT, "its smallest"),
    Metric("ratio_max", "", DRIFT, "its largest"),
    Metric("ratio_p01", "", DRIFT, "its 1st percentile"),
    Metric("ratio_p50", "", DRIFT, "its median"),
    Metric("ratio_p99", "", DRIFT, "its 99th percentile"),
    Metric("ess", "share", DRIFT, "effective share of samples if the ratio were the weight"),
    Metric("behaviour_k1", "nats", DRIFT, "KL of sampler to trainer, estimator k1"),
    Metric("behaviour_k3", "nats", DRIFT, "the same, estimator k3"),
    Metric("behaviour_max_abs", "nats", DRIFT, "largest difference of a token's log-probabilities"),
    Metric("mismatch_k1", "nats", DRIFT, "KL of sampler to trainer with the same weights: arithmetic alone"),
    Metric("mismatch_k3", "nats", DRIFT, "the same, estimator k3"),
    Metric("mismatch_max_abs", "nats", DRIFT, "largest such difference"),
    Metric("share_", "share", DRIFT, "trained tokens that the objective clipped or masked, by why"),
    Metric(
        "staleness_min", "versions", DRIFT, "between the oldest weights that sampled an attempt and the present ones"
    ),
    Metric("staleness_mean", "versions", DRIFT, "its mean"),
    Metric("staleness_max", "versions", DRIFT, "its largest"),
    Metric("length_positive_p50", "tokens", LENGTHS, "sampled by attempts with a positive outcome, median"),
    Metric("length_positive_p99", "tokens", LENGTHS, "99th percentile"),
    Metric("length_positive_max", "tokens", LENGTHS, "longest"),
    Metric("length_negative_p50", "tokens", LENGTHS, "sampled by attempts without one, median"),
    Metric("length_negative_p99", "tokens", LENGTHS, "99th percentile"),
    Metric("length_negative_max", "tokens", LENGTHS, "longest"),
    Metric("turns_mean", "", LENGTHS, "model calls of an attempt"),
    Metric("truncated_share", "share", LENGTHS, "attempts whose last answer the token limit cut"),
    Metric("seconds", "s", COST, "wall time of the step"),
    Metric("tokens", "tokens", COST, "read and sampled"),
    Metric("trained_tokens", "tokens", COST, "in the loss"),
    Metric("tokens_per_second", "tokens/s", COST, "without padding"),
    Metric("padding_efficiency", "share", COST, "tokens over tokens with padding"),
    Metric("filtered_", "", FILTERS, "attempts or groups that this filter took"),
)

_BY_NAME = {metric.name: metric for metric in METRICS}
_PREFIXES = tuple(metric.name for metric in METRICS if metric.name.endswith("_"))


def metric_of(name: str) -> Metric | None:
    """What a name means; None for one that is not in the table."""
    prefix = next((each for each in _PREFIXES if name.startswith(each) and name != each), None)
    return _BY_NAME.get(name) or (None if prefix is None else _BY_NAME[prefix])
