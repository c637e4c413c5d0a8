"""What the sampler emits on a model: prompts in, whole texts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rheo.decoding import Sampler
from rheo.models.drafters import Drafter
from rheo.models.generation import Limits, Play, Round, generate

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Text:
    """A prompt and what was emitted behind it, as token ids, nothing behind the end of the sequence."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Models:
    """A target and a drafter as they are sampled, and what judges them: the target's weights in float32."""

    target: PreTrainedModel
    drafter: Drafter
    judge: PreTrainedModel


def judged(target: PreTrainedModel, drafter: Drafter) -> Models:
    """The models, with a float32 copy of the target where it is of another type."""
    import copy

    import torch

    if target.dtype == torch.float32:
        return Models(target, drafter, target)
    return Models(target, drafter, torch.nn.Module.to(copy.deepcopy(target), torch.float32))


def emitted(
    models: Models,
    sampler: Sampler,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    limits: Limits,
    on_round: Callable[[Round], None] = lambda done: None,
    play: Play | None = None,
) -> list[Text]:
    """The texts of N prompts, one seed each, until every one has ended. play, and what it raises: as `generate`."""
    texts: list[list[int]] = [[] for _ in prompts]
    for done in generate(models.target, models.drafter, sampler, prompts, seeds, limits, play=play):
        for request, tokens in zip(done.requests, done.tokens, strict=True):
            texts[request] += tokens
        on_round(done)
    return [Text(tuple(prompt), tuple(text)) for prompt, text in zip(prompts, texts, strict=True)]
