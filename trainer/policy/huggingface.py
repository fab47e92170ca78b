"""Any causal language model that transformers loads from safetensors.

Rows are packed where the model can take them so; else they are padded on the right and no attention mask is passed,
since a causal model never looks there. Hidden states are gathered where a trained token is predicted, and the output
layer sees nothing else.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from harness.errors import UsageError
from harness.export.retokenize import fingerprint_of
from trainer.policy.config import PolicyConfig
from trainer.policy.logprobs import Head, selected_logprobs
from trainer.policy.packing import enable_packing, packed_positions
from trainer.policy.protocol import Scores
from trainer.policy.value import load_value_head, save_value_head
from trainer.samples.collate import MicroBatch


class HuggingFacePolicy:
    """See the module."""

    def __init__(self, model: Any, tokenizer: Any, config: PolicyConfig, value_head: nn.Linear | None = None) -> None:
        """`model` is the plain model, with adapters already inside where there are any."""
        self._model, self._tokenizer = model, tokenizer
        self._config = config
        self._scorer = _Scorer(model, config, value_head)
        self._packs = enable_packing(model)

    @property
    def module(self) -> nn.Module:
        return self._scorer

    @property
    def model(self) -> Any:
        """The transformers model itself."""
        return self._model

    def with_model(self, model: Any) -> HuggingFacePolicy:
        """The same policy, with another model in it."""
        return HuggingFacePolicy(model, self._tokenizer, self._config)

    @property
    def tokenizer(self) -> Any:
        """What came with the model; None where nothing did."""
        return self._tokenizer

    @property
    def head(self) -> Head:
        """The output layer, as trained tokens are scored with it."""
        return self._scorer.head

    @property
    def value_head(self) -> nn.Linear | None:
        return self._scorer.value_head

    @property
    def vocab_size(self) -> int:
        return int(self._model.get_output_embeddings().weight.shape[0])

    @property
    def packs(self) -> bool:
        return self._packs

    @property
    def max_tokens(self) -> int | None:
        own = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        return self._config.max_tokens or (int(own) if own else None)

    @property
    def fingerprint(self) -> str | None:
        return None if self._tokenizer is None else fingerprint_of(self._tokenizer)

    def score(self, batch: MicroBatch) -> Scores:
        logp, entropy, value = self._scorer(
            batch.input_ids,
            batch.source,
            batch.target,
            batch.temperature,
            row_lengths=tuple(map(len, batch.rows)) if batch.packed else None,
        )
        return Scores(logp=logp, entropy=entropy, value=value)

    def save(self, folder: Path) -> None:
        from trainer.distributed import full_state, is_first

        state = full_state(self._model)
        if is_first():
            if self._config.lora is not None:
                from trainer.policy.lora import save_adapter

                save_adapter(self._model, folder / "adapter")
                from trainer.policy.lora import merged_state

                state = merged_state(self._model)
            self._model.save_pretrained(folder, state_dict=state)
            if self._tokenizer is not None:
                self._tokenizer.save_pretrained(folder)
        if self.value_head is not None:
            save_value_head(self.value_head, folder)


class _Scorer(nn.Module):
    """From token ids to log-probabilities in one forward, so that sharded weights are whole while it runs."""

    def __init__(self, model: Any, config: PolicyConfig, value_head: nn.Linear | None = None) -> None:
        super().__init__()
        self.model = model
        self.value_head = value_head
        self._autocast = config.precision == "bfloat16"
        self._full_precision = config.fp32_head or not self._autocast
        text = model.config.get_text_config()
        self._softcap: float | None = getattr(text, "final_logit_softcapping", None)
        self._scale = _logit_scale(text)

    def forward(
        self,
        input_ids: Tensor,
        source: Tensor,
        target: Tensor,
        temperature: Tensor,
        row_lengths: tuple[int, ...] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        rows: dict[str, Any] = {}
        if row_lengths is not None:
            rows = {"position_ids": packed_positions(row_lengths), "row_lengths": row_lengths}
        with torch.autocast(input_ids.device.type, dtype=torch.bfloat16, enabled=self._autocast):
            hidden = self.model.base_model(input_ids=input_ids, use_cache=False, **rows).last_hidden_state
        chosen = hidden.flatten(0, 1).index_select(0, source)
        value = None
        if self.value_head is not None:
            value = self.value_head(chosen.detach().to(self.value_head.weight.dtype)).squeeze(1)
        return (*selected_logprobs(chosen, self.head, target, temperature), value)

    @property
    def head(self) -> Head:
        layer = self.model.get_output_embeddings()
        return Head(
            weight=layer.weight,
            bias=getattr(layer, "bias", None),
            scale=self._scale,
            softcap=self._softcap,
            full_precision=self._full_precision,
        )


def load_huggingface(path: str, config: PolicyConfig, *, seed: int = 0, critic: bool = False) -> HuggingFacePolicy:
    """The model and tokenizer at `path`, in fp32, and with `critic` its value head.

    Raises UsageError for what is no causal model in safetensors.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if path.startswith((".", "/", "~")) and not Path(path).expanduser().is_dir():
        raise UsageError(f"--model {path}: there is no such folder")
    device = _device(config.device)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # each of its retries would be two lines
    path = str(Path(path).expanduser()) if path.startswith("~") else path
    try:
        settings = transformers.AutoConfig.from_pretrained(path)
        _without_dropout(settings)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path, config=settings, dtype=torch.float32, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(f"--model {path}: {_first_line(error)}") from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError):
        tokenizer = None  # a model without one can be trained all the same
    _require_known_head(model, path)
    if config.lora is not None:
        from trainer.policy.lora import add_adapter

        add_adapter(model, config.lora, seed=seed)
    if config.gradient_checkpointing:
        recompute_activations(model)
        if config.lora is not None:
            model.enable_input_require_grads()
    model.train()
    head = None
    if critic:
        output = model.get_output_embeddings().weight
        head = load_value_head(Path(path), output.shape[1], output.dtype).to(device)
    return HuggingFacePolicy(model.to(device), tokenizer, config, head)


def recompute_activations(model: Any) -> None:
    """Have layers computed twice instead of kept."""
    enable = getattr(model, "activation_checkpointing_enable", None)
    if enable is not None:
        enable({"use_reentrant": False})
    else:  # its name before transformers 5
        model.gradient_checkpointing_enable({"use_reentrant": False})


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"policy.device {name!r}: {_first_line(error)}") from error
    return name


def _without_dropout(settings: Any) -> None:
    """The ratio compares two policies; with dropout it would compare two random networks."""
    for part in (settings, settings.get_text_config()):
        for name in list(vars(part)):
            if ("dropout" in name or "pdrop" in name) and isinstance(getattr(part, name), float):
                setattr(part, name, 0.0)


def _logit_scale(settings: Any) -> float:
    """Granite divides logits, Cohere multiplies them."""
    scale = getattr(settings, "logit_scale", None)
    divisor = getattr(settings, "logits_scaling", None)
    return float(scale or 1.0) / float(divisor or 1.0)


def _require_known_head(model: Any, path: str) -> None:
    """The logits that we compute have to be the model's: some models do more to them than is known here."""
    ids = torch.arange(8).remainder(model.get_output_embeddings().weight.shape[0])[None]
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        scorer = _Scorer(model, PolicyConfig())
        found, *_ = scorer(ids, torch.arange(7), ids[0, 1:], torch.ones(7))
    chosen = expected.gather(1, ids[0, 1:, None]).squeeze(1)
    if not chosen.isfinite().all():
        raise UsageError(f"--model {path}: its log-probabilities are not finite: the weights are damaged")
    if not torch.allclose(found, chosen, atol=1e-3, rtol=1e-3):
        raise UsageError(
            f"--model {path}: {type(model).__name__} transforms its logits in a way that is not supported: "
            f"log-probabilities would be off by {float((found - chosen).abs().max()):.2g}"
        )


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
