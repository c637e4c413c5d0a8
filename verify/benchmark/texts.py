"""One text of one method: how many tokens a round, and where the time went."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rheo.decoding import Pair, Sampler, play_round
from rheo.methods import METHODS
from rheo.models.drafters import Drafter
from rheo.models.generation import Limits, Play, generate
from rheo.processors import temperature
from rheo.tree import Path, Tree
from rheo.truncation import widened
from rheo.uniforms import Uniforms
from verify.benchmark import expected
from verify.benchmark.autoregressive import NoDrafter, play_token
from verify.benchmark.clock import Seconds, Watched, marker, split, wait
from verify.benchmark.machine import peak_memory, reset_peak_memory
from verify.benchmark.plan import AR, Plan

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Record = dict[str, Any]


@dataclass(frozen=True)
class Models:
    """A target, a drafter for it, the tokens that end a text, and a tokenizer if texts are to be begun."""

    target: PreTrainedModel
    drafter: Drafter
    eos: frozenset[int] = frozenset()
    tokenizer: Any = None


def text(
    models: Models, plan: Plan, method: str, prompt: Sequence[int], seed: int, longest: int | None = None
) -> Record:
    """Decode one prompt by a method of METHODS or `ar`. ValueError as `generate`.

    The first round, which reads the prompt, is timed on its own. What is computed here for the record stands outside
    of all times.
    """
    device = models.target.device
    inner: Play = play_token if method == AR else play_round
    drafter = NoDrafter() if method == AR else models.drafter
    config = plan.config_of(method)
    sampler = Sampler(config, METHODS.get(method, METHODS["topk"]))  # which one means nothing to `ar`
    mark = marker(device)
    played: list[Seconds] = []
    expectations: list[float | None] = []
    aside = [0.0]

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        watched = Watched(pair, mark)
        begin = mark()
        tree, path = inner(sampler, watched, uniforms)
        end = mark()
        wait(device)  # as reading the path does next
        paused = time.perf_counter()
        played.append(split(watched, begin, end))
        expectations.append(None if method == AR else expected_tokens(sampler, tree, watched.seen[0]))
        aside[0] = time.perf_counter() - paused
        return tree, path

    reset_peak_memory(device)
    limits = Limits(longest or plan.max_new_tokens, models.eos)
    walls, tokens, lengths = [], [], []
    end: str | None = None
    rounds = generate(models.target, drafter, sampler, [prompt], [seed], limits, play=play)
    while end is None:
        began = time.perf_counter()
        done = next(rounds)
        walls.append(time.perf_counter() - began - aside[0])
        tokens.append(done.tokens[0])
        lengths.append(int(done.path.lengths[0]))
        end = done.ends[0]
    times = [replace(s, rest=max(wall - s.total, 0.0)) for s, wall in zip(played, walls, strict=True)]
    known = [value for value in expectations if value is not None]
    return {
        "rounds": len(lengths),
        "emitted": sum(lengths),
        "expected": sum(known) if known else None,
        "reached": [sum(length > depth for length in lengths) for depth in range(config.depth + 1)],
        "tokens": sum(map(len, tokens)),
        "end": end,
        "digest": hashlib.sha256(repr(tokens).encode()).hexdigest()[:16],
        "timed": {
            "rounds": len(times) - 1,
            "tokens": sum(map(len, tokens[1:])),
            **asdict(sum(times[1:], Seconds())),
            "first_round": times[0].total,
            "memory_bytes": peak_memory(device),
        },
    }


def target_law(sampler: Sampler, logits: Tensor) -> Tensor:
    """p, float64, of raw target logits [..., V]."""
    return torch.softmax(temperature(sampler.config.temperature)(widened(logits)).double(), -1)


@torch.inference_mode()
def expected_tokens(sampler: Sampler, tree: Tree, logits: Tensor) -> float:
    """Expected tokens of a round of one request, given its tree."""
    reach = expected.REACH[sampler.method.rule]
    return float(expected.tokens(tree, reach(tree, target_law(sampler, logits)))[0])
