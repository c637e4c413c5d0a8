"""Answers to prompts that a head has not seen, as what it is measured on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.models.prompts import Prompt, chat_ids
from rheo.training.batches import padded_texts
from rheo.training.decoding import Turns, sample_texts
from rheo.training.unrolled import Texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TOGETHER = 8


def held_out(
    model: PreTrainedModel,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    length: int,
    turns: Turns,
    layers: tuple[int, ...],
    seed: int,
) -> Iterator[Texts]:
    """Answers at temperature 1 to the first turn of each prompt, `length` tokens or up to their end, in batches.

    Learned are the positions whose next token belongs to the answer. The target's states are those of this model: in
    float32, exact.
    """
    generator = torch.Generator(model.device).manual_seed(seed)
    contexts = sorted((chat_ids(tokenizer, prompt.turns[0]) for prompt in prompts), key=len)
    for start in range(0, len(contexts), _TOGETHER):
        group = contexts[start : start + _TOGETHER]
        heat = [1.0] * len(group)
        texts = sample_texts(model, group, [True] * len(group), heat, length, turns, generator, layers)
        answers = [_answer(text.tokens, text.given, turns) for text in texts]
        yield padded_texts(
            [text.tokens for text in texts], answers, [text.features for text in texts], [text.states for text in texts]
        )


def _answer(tokens: Tensor, given: int, turns: Turns) -> Tensor:
    """bool [n]: the positions from the prompt's last token to the last before the answer's end."""
    ends = torch.isin(tokens[given:], torch.tensor(sorted(turns.ends))).nonzero()
    stop = given + int(ends[0]) if len(ends) else len(tokens)
    column = torch.arange(len(tokens))
    return (column >= given - 1) & (column < stop)
