"""The text a head is trained on, in shards on disk: sampled from the target, with the target's states beside it.

A shard is a safetensors file of one batch of texts. It depends on its number and the seed alone, so a run that was
stopped goes on with the first shard that is missing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.training.decoding import Sampled, Turns, sample_texts
from rheo.training.prompts import shares_words, training_starts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEMPERATURES = (1.0, 0.7)
_TOGETHER = 192  # texts sampled at a time, of starts about as long as each other
_START = 224  # a longer start is left out


@dataclass(frozen=True)
class TextPlan:
    """What is sampled. batch: texts a shard. length: tokens beyond each start. layers: whose inputs are features."""

    seed: int
    batch: int
    length: int
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Shard:
    """Texts in a row. tokens: int32 [n]. starts: [t + 1], where each begins. given: [t], tokens of the starts.

    features: [n, 3 d], inputs of three layers. states: [n, d], behind the last norm; both as the target computed them.
    """

    tokens: Tensor
    starts: Tensor
    given: Tensor
    features: Tensor
    states: Tensor
    dropped: int
    seconds: float


@dataclass(frozen=True)
class Tally:
    """Of one shard, or several: tokens that the target sampled, texts that were dropped, seconds it took."""

    sampled: int = 0
    dropped: int = 0
    seconds: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sampled + other.sampled, self.dropped + other.dropped, self.seconds + other.seconds)


def shard_path(folder: Path, index: int) -> Path:
    """Where a shard lies."""
    return folder / f"text-{index:05d}.safetensors"


def shards(folder: Path) -> Iterator[Path]:
    """The shards there are, from the first on, up to the first that is missing."""
    index = 0
    while (path := shard_path(folder, index)).is_file():
        yield path
        index += 1


def sample_text(
    model: PreTrainedModel,
    tokenizer: Any,
    turns: Turns,
    plan: TextPlan,
    folder: Path,
    least: int,
    functions: list[str],
    forbidden: set[tuple[str, ...]],
    on_shard: Callable[[Tally], None],
) -> tuple[list[Path], Tally]:
    """Shards of at least so many sampled tokens; one that lies in the folder is not sampled again.

    on_shard: called with what there is so far.
    """
    paths: list[Path] = []
    total = Tally()
    while total.sampled < least:
        path = shard_path(folder, len(paths))
        if not path.is_file():
            save_shard(path, sample_shard(model, tokenizer, turns, plan, len(paths), functions, forbidden))
        paths.append(path)
        total += tally_of(path)
        on_shard(total)
    return paths, total


def sample_shard(
    model: PreTrainedModel,
    tokenizer: Any,
    turns: Turns,
    plan: TextPlan,
    index: int,
    functions: list[str],
    forbidden: set[tuple[str, ...]],
) -> Shard:
    """Conversations with the target on both sides; those that share words with a benchmark's prompts are dropped."""
    started = time.monotonic()
    seed = plan.seed * 1_000_003 + index
    made = training_starts(tokenizer, plan.batch, seed, functions)
    starts = [start for start in made if len(start.ids) <= _START]
    generator = torch.Generator(model.device).manual_seed(seed)
    texts: list[Sampled] = []
    for first in range(0, len(starts), _TOGETHER):
        group = starts[first : first + _TOGETHER]
        ids, asked = [start.ids for start in group], [start.asked for start in group]
        heat = [TEMPERATURES[i % len(TEMPERATURES)] for i in range(len(group))]
        texts += sample_texts(model, ids, asked, heat, plan.length, turns, generator, plan.layers)
    kept = [text for text in texts if not shares_words(tokenizer.decode(text.tokens), forbidden)]
    return _shard(kept, len(texts) - len(kept), time.monotonic() - started)


def save_shard(path: Path, shard: Shard) -> None:
    """Write a shard in one step: a file that exists is whole."""
    from safetensors.torch import save_file

    tensors = {name: getattr(shard, name) for name in ("tokens", "starts", "given", "features", "states")}
    scratch = path.with_suffix(".part")
    save_file(tensors, scratch, metadata={"rheo": json.dumps({"dropped": shard.dropped, "seconds": shard.seconds})})
    os.replace(scratch, path)


def load_shard(path: Path) -> Shard:
    """Read one back; OSError or SafetensorError if it is damaged."""
    from safetensors import safe_open

    with safe_open(path, "pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)
        return Shard(**tensors, **json.loads(opened.metadata()["rheo"]))


def tally_of(path: Path) -> Tally:
    """What a shard says of itself."""
    from safetensors import safe_open

    with safe_open(path, "pt") as opened:
        given, said = opened.get_tensor("given"), json.loads(opened.metadata()["rheo"])
    return Tally(sum(text_lengths(path)) - int(given.sum()), said["dropped"], said["seconds"])


def read_one(path: Path, name: str) -> Tensor:
    """One tensor of a shard, without reading the rest."""
    from safetensors import safe_open

    with safe_open(path, "pt") as opened:
        tensor: Tensor = opened.get_tensor(name)
    return tensor


def text_lengths(path: Path) -> list[int]:
    """The tokens of each text of a shard."""
    lengths: list[int] = read_one(path, "starts").diff().tolist()
    return lengths


def _shard(texts: list[Sampled], dropped: int, seconds: float) -> Shard:
    lengths = torch.tensor([0, *(len(text.tokens) for text in texts)])
    return Shard(
        torch.cat([text.tokens for text in texts]).int(),
        lengths.cumsum(0),
        torch.tensor([text.given for text in texts]),
        torch.cat([text.features for text in texts]),
        torch.cat([text.states for text in texts]),
        dropped,
        seconds,
    )
