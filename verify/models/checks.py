"""What needs no statistics: greedy decoding token by token, and logits from caches beside those of a full forward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rheo.decoding import Pair, Sampler, play_round
from rheo.methods import METHODS
from rheo.models.generation import Limits, Round
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms
from verify.models.plain import target_logits
from verify.models.plan import FLOOR, GREEDY, Plan
from verify.models.texts import Models, emitted
from verify.mutants.mutant import ChangedPair

_REQUESTS, _TOKENS = 8, 32
# In float32 trees and full forwards differ by far less (a total variation of 1e-5, logits by 1e-4), a fault by more.
MOST_TV = MOST_MARGIN = 1e-3


@dataclass(frozen=True)
class Checked:
    """One method on a few texts.

    tokens: emitted at T = 0. differing: how many of them are not the likeliest of a full forward, ids deciding ties;
    margin: the most by which a logit of theirs falls short of the largest. cached: tokens whose probabilities were
    compared; tv: the largest total variation between the law that they were drawn from and that of a full forward.
    """

    tokens: int
    differing: int
    margin: float
    cached: int
    tv: float

    @property
    def exact(self) -> bool:
        """Whether only what rounds otherwise differs, if all is done in float32."""
        return self.margin <= MOST_MARGIN and self.tv <= MOST_TV


def checked(plan: Plan, models: Models, method: str) -> Checked:
    """A method without temperature, and with the plan's, on a few requests."""
    tokens, differing, margin = _greedy(plan, models, method)
    cached, tv = _cached(plan, models, method)
    return Checked(tokens, differing, margin, cached, tv)


def _greedy(plan: Plan, models: Models, method: str) -> tuple[int, int, float]:
    sampler = Sampler(replace(plan.config, temperature=0), METHODS[method])
    texts = emitted(models, sampler, *_requests(plan, GREEDY))
    tokens, differing, margin = 0, 0, 0.0
    for text, logits in zip(texts, target_logits(models.judge, texts), strict=True):
        chosen = torch.tensor(text.tokens, device=logits.device)
        tokens += len(chosen)
        differing += int((logits.argmax(-1) != chosen).sum())
        short = logits.amax(-1) - logits.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        margin = max(margin, float(short.max()))
    return tokens, differing, margin


def _cached(plan: Plan, models: Models, method: str) -> tuple[int, float]:
    seen: list[Tensor] = []  # logits [requests, R + 1, V] of the last round
    prompts, seeds, limits = _requests(plan, FLOOR)
    cached: list[list[Tensor]] = [[] for _ in prompts]

    def look(tree: Tree, logits: Tensor) -> Tensor:
        seen.append(logits)
        return logits

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        return play_round(sampler, ChangedPair(pair, look), uniforms)

    def sort(done: Round) -> None:
        logits = seen.pop()
        for row, (request, kept) in enumerate(zip(done.requests, done.tokens, strict=True)):
            nodes = [0, *done.path.rows[row].tolist()][: len(kept)]
            cached[request].append(logits[row, nodes])

    texts = emitted(models, Sampler(plan.config, METHODS[method]), prompts, seeds, limits, sort, play)
    tv = 0.0
    for rows, full in zip(cached, target_logits(models.judge, texts), strict=True):
        p, other = (torch.softmax(plan.process(logits.float()).double(), -1) for logits in (torch.cat(rows), full))
        tv = max(tv, float((p - other).abs().sum(-1).max() / 2))
    return sum(len(text.tokens) for text in texts), tv


def _requests(plan: Plan, part: str) -> tuple[list[tuple[int, ...]], list[int], Limits]:
    limits = replace(plan.limits, max_new_tokens=min(_TOKENS, plan.limits.max_new_tokens))
    numbers = range(_REQUESTS)
    return [plan.prompt(i) for i in numbers], [plan.request_seed(part, i) for i in numbers], limits
