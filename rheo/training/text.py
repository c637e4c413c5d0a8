"""The text a head is trained on, in shards on disk: sampled from the target, with the target's states beside it.

A shard is a safetensors file of one batch of texts. It depends on its number and the seed alone, so a run that was
stopped goes on with the first shard that is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.models.prompts import chat_ids
from rheo.training.decoding import Sampled, sample_texts
from rheo.training.prompts import disjoint, training_prompts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEMPERATURES = (1.0, 0.7)
_PROMPT_TOKENS = 224  # of a longer prompt no text is made
_TOGETHER = 192  # texts sampled at a time, of prompts about as long as each other


@dataclass(frozen=True)
class TextPlan:
    """What is sampled. batch: prompts a shard. answer: most tokens of an answer. layers: whose inputs are features."""

    seed: int
    batch: int
    answer: int
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Shard:
    """Texts in a row, half precision. tokens: int32 [n]. starts: [t + 1], where each begins. given: [t], prompt tokens.

    features: [n, 3 d], inputs of three layers. states: [n, d], behind the last norm.
    """

    tokens: Tensor
    starts: Tensor
    given: Tensor
    features: Tensor
    states: Tensor
    dropped: int

    @property
    def answered(self) -> int:
        """Tokens that the target sampled."""
        return len(self.tokens) - int(self.given.sum())


def shard_path(folder: Path, index: int) -> Path:
    """Where a shard lies."""
    return folder / f"text-{index:05d}.safetensors"


def shards(folder: Path) -> Iterator[Path]:
    """The shards there are, from the first on, up to the first that is missing."""
    index = 0
    while (path := shard_path(folder, index)).is_file():
        yield path
        index += 1


def _batched(rows: list[list[int]], size: int) -> Iterator[list[list[int]]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def sample_shard(
    model: PreTrainedModel,
    tokenizer: Any,
    eos: list[int],
    plan: TextPlan,
    index: int,
    functions: list[str],
    forbidden: set[tuple[str, ...]],
) -> Shard:
    """Prompts, of which those that share words with a benchmark's are dropped, and an answer to each."""
    seed = plan.seed * 1_000_003 + index
    made = training_prompts(model, tokenizer, plan.batch, eos, seed, functions)
    allowed = disjoint(made, forbidden)
    contexts = [ids for prompt in allowed if len(ids := chat_ids(tokenizer, prompt)) <= _PROMPT_TOKENS]
    generator = torch.Generator(model.device).manual_seed(seed)
    texts = []
    for group in _batched(sorted(contexts, key=len), _TOGETHER):
        heat = [TEMPERATURES[i % len(TEMPERATURES)] for i in range(len(group))]
        texts += sample_texts(model, group, heat, plan.answer, eos, generator, plan.layers)
    return _shard(texts, dropped=len(made) - len(allowed))


def save_shard(path: Path, shard: Shard) -> None:
    """Write a shard in one step: a file that exists is whole."""
    from safetensors.torch import save_file

    tensors = {name: getattr(shard, name) for name in ("tokens", "starts", "given", "features", "states")}
    scratch = path.with_suffix(".part")
    save_file(tensors, scratch, metadata={"rheo": json.dumps({"dropped": shard.dropped})})
    os.replace(scratch, path)


def load_shard(path: Path) -> Shard:
    """Read one back; OSError or SafetensorError if it is damaged."""
    from safetensors import safe_open

    with safe_open(path, "pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)
        return Shard(**tensors, **json.loads(opened.metadata()["rheo"]))


def _shard(texts: list[Sampled], dropped: int) -> Shard:
    lengths = torch.tensor([0, *(len(text.tokens) for text in texts)])
    return Shard(
        torch.cat([text.tokens for text in texts]).int(),
        lengths.cumsum(0),
        torch.tensor([text.given for text in texts]),
        torch.cat([text.features for text in texts]).bfloat16(),
        torch.cat([text.states for text in texts]).bfloat16(),
        dropped,
    )
