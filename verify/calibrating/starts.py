"""Where rounds may start: random places in answers that the target itself has sampled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from rheo.models.causal import context_limit
from rheo.training.decoding import Turns, sample_texts
from rheo.training.prompts import Start, library_functions, training_starts, turns_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LONGEST = 384  # tokens of a beginning
_TOGETHER = 64  # texts sampled at a time
LENGTH = 160  # tokens of a text beyond its beginning


def made_up(tokenizer: Any, count: int, seed: int) -> list[Start]:
    """`count` beginnings as a head is trained on: users' turns that the target completes, and library functions."""
    return training_starts(tokenizer, count, seed, library_functions())


def round_starts(
    model: PreTrainedModel, tokenizer: Any, starts: Sequence[Start], each: int, temperature: float, seed: int
) -> list[list[int]]:
    """Contexts, `each` a text at random places of its answers, all mixed. The answers are sampled at the temperature.

    A text gives fewer where its answers are shorter, and none where it is too long for the target.
    """
    turns = turns_of(tokenizer, model)
    limit = (context_limit(model) or 1 << 30) - 2 * LENGTH
    usable = sorted((start for start in starts if 0 < len(start.ids) <= min(_LONGEST, limit)), key=lambda s: len(s.ids))
    generator = torch.Generator(model.device).manual_seed(seed)
    choose = random.Random(seed)
    found: list[list[int]] = []
    for first in range(0, len(usable), _TOGETHER):
        group = usable[first : first + _TOGETHER]
        ids, asked, heat = [s.ids for s in group], [s.asked for s in group], [max(temperature, 1e-3)] * len(group)
        texts = sample_texts(model, ids, asked, heat, LENGTH, turns, generator, (0,))
        for start, text in zip(group, texts, strict=True):
            tokens = text.tokens.tolist()
            places = [place for place in answering(tokens, start, turns) if place > 1]  # a head reads pairs
            found += [tokens[:place] for place in choose.sample(places, min(each, len(places)))]
    choose.shuffle(found)
    return found


def answering(tokens: Sequence[int], start: Start, turns: Turns) -> list[int]:
    """The places of a text's tokens that the target sampled as an answer, the end of each included."""
    places = []
    place, answer = len(start.ids), start.asked
    while place < len(tokens):
        if answer or not any(turns.after):  # without a template there is nothing but text
            places.append(place)
        if tokens[place] in turns.ends:
            place += len(turns.after[answer])
            answer = not answer
        place += 1
    return places
