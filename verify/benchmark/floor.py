"""How far two right forwards are apart: p over a tree, and p token by token without any mask of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rheo.decoding import Pair, Sampler, play_round
from rheo.methods import METHODS
from rheo.models.causal import cache_argument
from rheo.models.generation import Limits, generate
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms
from verify.benchmark.clock import Watched, marker
from verify.benchmark.plan import Plan
from verify.benchmark.texts import Models, Record, target_law

_MOST = 64  # tokens: each costs a forward of its own


def numeric_floor(models: Models, plan: Plan, method: str, prompt: Sequence[int], seed: int) -> Record:
    """Total variation at every emitted token of one text, p at T = 1 whatever the plan's temperature."""
    plain = Sampler(replace(plan.config_of(method), temperature=1.0), METHODS[method])
    over_tree: list[Tensor] = []

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        watched = Watched(pair, marker(models.target.device))
        tree, path = play_round(sampler, watched, uniforms)
        rows = [0, *(row for row in path.rows[0].tolist() if row > 0)]
        over_tree.extend(target_law(plain, watched.seen[0][0, rows]))
        return tree, path

    limits = Limits(min(plan.max_new_tokens, _MOST), models.eos)
    sampler = Sampler(plan.config_of(method), METHODS[method])
    rounds = generate(models.target, models.drafter, sampler, [prompt], [seed], limits, play=play)
    tokens = [token for done in rounds for token in done.tokens[0]]
    steps = _token_by_token(models, [*prompt, *tokens], len(prompt))
    distances = [
        float((p - target_law(plain, logits)).abs().sum()) / 2 for p, logits in zip(over_tree, steps, strict=False)
    ]
    return {"tokens": len(tokens), "sum": sum(distances[: len(tokens)]), "largest": max(distances[: len(tokens)])}


@torch.inference_mode()
def _token_by_token(models: Models, sequence: Sequence[int], first: int) -> list[Tensor]:
    """Logits [V] that predict every token from the `first` on: the prompt in one forward, then one token each."""
    from transformers import DynamicCache

    cache = DynamicCache()
    logits = []
    fed = [sequence[:first], *([token] for token in sequence[first:-1])]
    for tokens in fed:
        ids = torch.tensor([tokens], device=models.target.device)
        output = models.target(ids, use_cache=True, **{cache_argument(models.target): cache})
        logits.append(output.logits[0, -1])
    return logits
