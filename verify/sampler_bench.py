"""What growth and verification cost without any model, beside a floor, a dense variant and the reference.

All contenders of a setting are timed in turn within one run, so that a drift of the machine meets all of them alike;
only ratios are worth quoting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference.choose import sampling
from reference.decoding import Sampler as ReferenceSampler
from reference.decoding import play_round as play_reference
from reference.distributions import Array
from reference.methods import METHODS as REFERENCE
from reference.tree import Tokens
from reference.truncation import weights_from_logits
from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.growth import grow
from rheo.methods import METHODS
from rheo.processors import temperature
from rheo.rules.children import Children, accepts
from rheo.tree import Frontier, Path, Tree
from rheo.truncation import top
from rheo.uniforms import Uniforms, draw_uniforms
from rheo.verification import verify
from verify.random_toys import random_toy
from verify.torch_toys import ToyPair, automaton

# Logits of this many bytes are kept apart for every depth; larger ones share one block of memory.
_MOST_BYTES = 3 << 30


@dataclass(frozen=True)
class Inputs:
    """Pre-generated logits: drafts, one [N, b, V] a depth; targets [N, R + 1, V]."""

    drafts: list[Tensor]
    targets: Tensor

    def draft(self, frontier: Frontier) -> Tensor:
        return self.drafts[frontier.depth]

    def target(self, tree: Tree) -> Tensor:
        return self.targets


def make_inputs(config: Config, vocab: int, batch: int, seed: int = 0) -> Inputs:
    """Peaky normal logits. Every target row resembles the draft's at the depth where most of its nodes stand."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    share = batch * config.beam * config.depth * vocab * 4 > _MOST_BYTES
    block = normal(batch, config.beam, vocab) * 4
    drafts = [block if share else normal(batch, config.beam, vocab) * 4 for _ in range(config.depth)]
    drafts[0] = drafts[0][:, :1].contiguous()
    targets = torch.empty(batch, config.budget + 1, vocab)
    for row in range(config.budget + 1):
        near = drafts[min(row, config.depth - 1)]
        targets[:, row] = near[:, row % near.shape[1]] + normal(batch, vocab)
    return Inputs(drafts, targets)


def truncated_round(inputs: Inputs, config: Config, uniforms: Uniforms) -> Path:
    """The sampler as it is."""
    return play_round(Sampler(config, METHODS["rheo"]), inputs, uniforms)[1]


def floor_round(inputs: Inputs, config: Config, lengths: list[int], two_stage: bool) -> None:
    """The least a sampler of this kind can do: the top-S of every expanded node, a softmax per node on the path."""
    with torch.inference_mode():
        for draft in inputs.drafts:
            support = config.support or draft.shape[-1]
            _ = top(draft, support) if two_stage else draft.topk(support)
        for depth in range(max(lengths)):
            still = [request for request, length in enumerate(lengths) if length > depth]
            torch.softmax(inputs.targets[still, depth], -1)


def dense_round(inputs: Inputs, config: Config, uniforms: Uniforms) -> Path:
    """The same round without truncation: a softmax over the vocabulary at every expanded node, and a draw from all of
    it by one cumulative sum (in float64, or the draw drifts).

    Growth itself runs on the K likeliest tokens. Verification subtracts a dense law at every node: always the root's,
    which costs what each node's own would, so that the path is about as long and not the same.
    """
    laws: list[Tensor] = []
    ids: list[Tensor] = []

    def draft(frontier: Frontier) -> Tensor:
        q = torch.softmax(inputs.draft(frontier), -1)
        best = q.topk(config.slots)
        tail = q.scatter(-1, best.indices[..., : config.anchors], 0.0)
        law = tail / tail.sum(-1, keepdim=True)
        start = config.expansion(frontier.depth, 0)
        uniform = uniforms.probe[:, start : start + q.shape[1]].unsqueeze(-1).contiguous()
        torch.searchsorted(law.cumsum(-1, dtype=torch.float64), uniform, right=True)
        laws.append(law)
        ids.append(best.indices)
        return torch.log(best.values)

    def rule(p: Tensor, children: Children, coin: Tensor) -> Tensor:
        rest = (p - laws[0][:, 0]).clamp(min=0.0)
        left = rest.sum(-1, keepdim=True) > 0
        accepted = accepts(p, children, coin)
        rest = torch.where(left, rest, p).mul_(~accepted)
        return rest.scatter_add_(-1, children.probe, accepted.to(p.dtype))

    with torch.inference_mode():
        ranked = grow(draft, uniforms.probe, replace(config, support=None), METHODS["rheo"].growth)
        support = torch.cat(ids, 1)
        # Growth has numbered each node's tokens by their rank: back to ids, by way of the parent's expansion.
        parent = ranked.expansion.gather(1, ranked.parents).clamp(min=0)
        tokens = support.flatten(1).gather(1, parent * config.slots + ranked.tokens)
        tree = replace(ranked, tokens=tokens, support=support)
        return verify(tree, inputs.targets, uniforms, temperature(config.temperature), rule)


def reference_round(inputs: Inputs, config: Config, seed: int) -> None:
    """The NumPy reference on the first request, with the same logits by depth."""
    drafts = [weights_from_logits(draft[0, 0].numpy()) for draft in inputs.drafts]
    targets = [weights_from_logits(row.numpy()) for row in inputs.targets[0, : config.depth + 1]]

    def draft_at(tokens: Tokens) -> Array:
        return drafts[len(tokens)]

    def target_at(tokens: Tokens) -> Array:
        return targets[len(tokens)]

    sampler = ReferenceSampler(target_at, draft_at, replace(config, temperature=1.0), REFERENCE["rheo"])
    play_reference(sampler, (), sampling(np.random.default_rng(seed)))


def time_in_turn(contenders: dict[str, Callable[[int], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every contender, one after the other in every repeat, after one repeat that is not counted.

    A contender is called with the number of the repeat.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run(repeat)
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def bench_setting(config: Config, vocab: int, batch: int, repeats: int) -> dict[str, Any]:
    """Medians in milliseconds and ratios of one (vocabulary, batch)."""
    inputs = make_inputs(config, vocab, batch)
    # Paths differ in length from draw to draw: every repeat has its own uniforms, the same for all contenders.
    uniforms = [draw_uniforms(config, range(batch), index) for index in range(repeats + 1)]
    growth, rule, process = METHODS["rheo"].growth, METHODS["rheo"].rule, temperature(config.temperature)
    grown = [grow(inputs.draft, u.probe, config, growth) for u in uniforms]
    lengths = [truncated_round(inputs, config, u).lengths.tolist() for u in uniforms]
    contenders: dict[str, Callable[[int], object]] = {
        "round": lambda i: truncated_round(inputs, config, uniforms[i]),
        "floor": lambda i: floor_round(inputs, config, lengths[i], two_stage=False),
        "floor, own top-S": lambda i: floor_round(inputs, config, lengths[i], two_stage=True),
        "dense": lambda i: dense_round(inputs, config, uniforms[i]),
        "growth": lambda i: grow(inputs.draft, uniforms[i].probe, config, growth),
        "verification": lambda i: verify(grown[i], inputs.targets, uniforms[i], process, rule),
    }
    seconds = time_in_turn(contenders, repeats)
    if batch == 1:
        seconds |= time_in_turn({"reference": lambda i: reference_round(inputs, config, i)}, min(3, repeats))
    return {
        "vocab": vocab,
        "batch": batch,
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "mean_emitted": mean(length for row in lengths[1:] for length in row),
        "median_ms": {name: 1e3 * median(values) for name, values in seconds.items()},
        # The median of ratios within a repeat, not the ratio of medians: both sides met the same machine.
        "ratio": {
            f"{a} / {b}": median(x / y for x, y in zip(seconds[a], seconds[b], strict=False))
            for a, b in (
                ("round", "floor"),
                ("round", "floor, own top-S"),
                ("dense", "round"),
                ("reference", "round"),
            )
            if a in seconds
        },
    }


def bench_toys(batch: int, repeats: int) -> dict[str, Any]:
    """Rounds per second on a toy with 8 tokens: a torch batch against the reference, one after the other."""
    config = Config(anchors=1, slots=4, beam=2, depth=3, budget=8, support=None, temperature=1.0)
    toy = random_toy(1, 8, 2, "any")
    pair = ToyPair(automaton(toy, torch.float32), torch.zeros(batch, dtype=torch.int64))
    uniforms = draw_uniforms(config, range(batch))
    reference = ReferenceSampler(toy.target.floats, toy.draft.floats, config, REFERENCE["rheo"])
    choose = sampling(np.random.default_rng(0))
    few = 50

    def slow(_: int) -> None:
        for _ in range(few):
            play_reference(reference, (), choose)

    def fast(_: int) -> None:
        play_round(Sampler(config, METHODS["rheo"]), pair, uniforms)

    seconds = time_in_turn({"torch": fast, "reference": slow}, repeats)
    rates = [batch / t / (few / r) for t, r in zip(seconds["torch"], seconds["reference"], strict=True)]
    return {
        "vocab": 8,
        "batch": batch,
        "threads": torch.get_num_threads(),
        "rounds_per_second": {
            "torch": batch / median(seconds["torch"]),
            "reference": few / median(seconds["reference"]),
        },
        "ratio": {"torch / reference": median(rates)},
    }


def settings(vocabularies: tuple[int, ...], batches: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Every (vocabulary, batch), the cheap ones first."""
    yield from sorted(((v, b) for v in vocabularies for b in batches), key=lambda s: s[0] * s[1])
