"""Later turns of a question: what the target answers to those before, sampled once.

Every method is lossless, so any of them would answer by this law; with one answer for all, a later turn is one prompt.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import Any

from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models.generation import Limits, generate
from rheo.models.prompts import conversation_ids
from verify.benchmark.autoregressive import NoDrafter, play_token
from verify.benchmark.plan import Plan, Question
from verify.benchmark.texts import Models, Record


def answers(models: Models, plan: Plan, question: Question, seed: int) -> Record:
    """What the target says to every turn but the last, as texts.

    ValueError as `generate`, PromptError without a chat template.
    """
    sampler = Sampler(plan.config, METHODS["topk"])  # which one means nothing to `play_token`
    limits = Limits(plan.max_new_tokens, models.eos)
    found: list[str] = []
    for turn in range(1, len(question.turns)):
        prompt = _prompt(models.tokenizer, question.turns[:turn], found)
        seeds = [(seed + turn) % 2**64]
        rounds = generate(models.target, NoDrafter(), sampler, [prompt], seeds, limits, play=play_token)
        tokens = list(chain.from_iterable(done.tokens[0] for done in rounds))
        found.append(models.tokenizer.decode(tokens, skip_special_tokens=True))
    return {"answers": found}


def prompt_of(models: Models, question: Question, answered: Record) -> tuple[int, ...]:
    """A later turn as token ids, behind the turns before it. PromptError without a chat template."""
    return _prompt(models.tokenizer, question.turns[: question.turn], answered["answers"][: question.turn - 1])


def _prompt(tokenizer: Any, turns: tuple[str, ...], answered: list[str]) -> tuple[int, ...]:
    said = chain.from_iterable(zip_longest(turns, answered))
    return tuple(conversation_ids(tokenizer, [text for text in said if text is not None]))
