"""At round starts of a text: what forwards cost, and how many tokens each smaller tree would be expected to yield."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.growth import Growth, TreeGrowth, grow
from rheo.growths.chain import Chain
from rheo.methods import METHODS
from rheo.models.generation import Limits, generate
from rheo.processors import temperature
from rheo.tree import Frontier, Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms
from rheo.verification import verify
from verify.benchmark import expected
from verify.benchmark.clock import between, marker
from verify.benchmark.costs import Stopwatch, Timed, time_forwards
from verify.benchmark.pruning import best, narrowed, pruned
from verify.benchmark.texts import Models, target_law

_STRIDE = 12  # tokens between round starts
_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_COARSE = (1, 3, 6, 12, 24, 48)  # every beam is drafted and verified anew


@dataclass(frozen=True, order=True)
class Choice:
    """Nodes that are drafted, and verified with the root; how deep; how many of a depth are expanded at most."""

    budget: int
    depth: int
    beam: int


@dataclass(frozen=True)
class Found:
    """What one context says of a choice. tau: expected tokens. widths: nodes of every draft forward, the root first.
    growth: seconds beside these forwards."""

    tau: float
    widths: tuple[int, ...]
    growth: float


@dataclass(frozen=True)
class Sight:
    """One context: seconds of everything that is timed, and by method what each choice would do."""

    seconds: Mapping[Timed, float]
    found: Mapping[str, Mapping[Choice, Found]]


@dataclass(frozen=True)
class Search:
    """methods: of METHODS, each with a formula for its expected tokens. config: its budget, depth and beam are the
    largest that are tried. contexts: round starts of a text."""

    methods: tuple[str, ...]
    config: Config
    contexts: int

    @property
    def budgets(self) -> list[int]:
        """Those tried, in rising order."""
        return _up_to(self.config.budget, _STEPS)

    @property
    def depths(self) -> list[int]:
        """Those tried, in rising order."""
        return _up_to(self.config.depth, _STEPS)

    @property
    def beams(self) -> list[int]:
        """Those tried, in rising order."""
        return _up_to(self.config.beam, _COARSE)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The methods by growth: those of one draft the same trees."""
        growths = dict.fromkeys(METHODS[name].growth for name in self.methods)
        return [tuple(name for name in self.methods if METHODS[name].growth is growth) for growth in growths]


def explore(models: Models, search: Search, prompt: Sequence[int], seed: int) -> Iterator[Sight]:
    """Up to search.contexts round starts along one text, played by each method in turn. ValueError as `generate`.

    The first round, which reads the prompt, is none of them.
    """
    sights: list[Sight] = []
    lengths: list[int] = []

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        index = len(lengths)
        if index and len(sights) < search.contexts and sum(lengths) >= len(sights) * _STRIDE:
            sights.append(look(pair, search, uniforms, seed, index))
        turn = METHODS[search.methods[index % len(search.methods)]]
        tree, path = play_round(Sampler(search.config, turn), pair, uniforms)
        lengths.append(int(path.lengths[0]))
        return tree, path

    sampler = Sampler(search.config, METHODS[search.methods[0]])  # every round is played by another
    limits = Limits(_STRIDE * search.contexts, models.eos)
    seen = 0
    for _ in generate(models.target, models.drafter, sampler, [prompt], [seed], limits, play=play):
        yield from sights[seen:]
        seen = len(sights)


@torch.inference_mode()
def look(pair: Pair, search: Search, uniforms: Uniforms, seed: int, index: int) -> Sight:
    """Everything about one context, before its round is played."""
    device = uniforms.draw.device
    watch = Stopwatch(marker(device), {})
    free = any(isinstance(METHODS[name].growth, TreeGrowth) for name in search.methods)
    widths = sorted({*search.beams, *(search.budgets if free else ())})
    # Up at one context, down at the next.
    order = slice(None, None, -1 if index % 2 else 1)
    plain = Sampler(search.config, METHODS[search.methods[0]])
    time_forwards(watch, pair, uniforms, plain, search.budgets[order], widths[order])
    found: dict[str, dict[Choice, Found]] = {name: {} for name in search.methods}
    for names in search.groups:
        growth = METHODS[names[0]].growth
        for config in _draftings(growth, search):
            own = draw_uniforms(config, [seed], index, device)
            drafted = _draft(pair, config, growth, own, watch)
            smaller = _smaller(drafted, growth, search)
            _weigh(pair, drafted, smaller, {name: found[name] for name in names}, watch)
    return Sight(watch.seconds, found)


@dataclass(frozen=True)
class _Drafted:
    """A tree, the configuration and the uniforms that it was drafted with, and as in `Found`."""

    tree: Tree
    config: Config
    uniforms: Uniforms
    widths: tuple[int, ...]
    growth: float


def _up_to(most: int, steps: Sequence[int]) -> list[int]:
    """The largest, and the steps that are clearly less."""
    return [*(step for step in steps if 6 * step <= 5 * most), most]


def _as_deep(budgets: Sequence[int], depth: int) -> list[int]:
    """Those that may have a node so deep, the largest first; a smaller depth does for the others."""
    return [budget for budget in reversed(budgets) if budget >= depth]


def _draftings(growth: Growth | TreeGrowth, search: Search) -> Iterator[Config]:
    """What has to be drafted: of slots all candidates of each beam, of fixed shapes every one; the largest first."""
    config = search.config
    if not isinstance(growth, TreeGrowth):
        for beam in reversed(search.beams):
            whole = config.slots * (1 + (config.depth - 1) * beam)
            yield replace(config, beam=beam, budget=whole)
        return
    for depth in reversed(search.depths):
        for budget in [depth] if isinstance(growth, Chain) else _as_deep(search.budgets, depth):
            yield replace(config, depth=depth, budget=budget)


def _draft(pair: Pair, config: Config, growth: Growth | TreeGrowth, uniforms: Uniforms, watch: Stopwatch) -> _Drafted:
    widths, calls = [], []

    def draft(frontier: Frontier) -> Tensor:
        widths.append(frontier.tokens.shape[1])
        begin = watch.mark()
        logits = pair.draft(frontier)
        calls.append((begin, watch.mark()))
        return logits

    begin = watch.mark()
    tree = grow(draft, uniforms.growth if isinstance(growth, TreeGrowth) else uniforms.probe, config, growth)
    beside = between(begin, watch.mark()) - sum(between(*call) for call in calls)
    return _Drafted(tree, config, uniforms, tuple(widths), beside)


def _smaller(drafted: _Drafted, growth: Growth | TreeGrowth, search: Search) -> dict[Choice, tuple[int, ...]]:
    """The nodes of every tree that is tried, the deepest first."""
    every = tuple(range(drafted.tree.tokens.shape[1]))
    if isinstance(growth, TreeGrowth):
        return {Choice(len(every), drafted.config.depth, max(drafted.widths)): every}
    depths = drafted.tree.depths[0].tolist()
    found = {}
    for depth in reversed(search.depths):
        for budget in _as_deep(search.budgets, depth):
            nodes = best(depths, budget, depth)
            found[Choice(len(nodes), depth, max(drafted.widths[:depth]))] = tuple(nodes)
    return found


def _weigh(
    pair: Pair,
    drafted: _Drafted,
    smaller: Mapping[Choice, tuple[int, ...]],
    found: Mapping[str, dict[Choice, Found]],
    watch: Stopwatch,
) -> None:
    """Read the target once, over all nodes that any of the trees has, and add what each tree is worth to `found`."""
    union = sorted(set().union(*smaller.values()))
    seen = pruned(drafted.tree, union)
    logits = pair.target(seen)
    few, p = narrowed(seen, target_law(Sampler(drafted.config, METHODS["topk"]), logits))
    place = {node: column for column, node in enumerate(union)}
    process = temperature(drafted.config.temperature)
    known: dict[tuple[str, tuple[int, ...]], float] = {}
    for choice, nodes in smaller.items():
        columns = [place[node] for node in nodes]
        rows = [0, *(column + 1 for column in columns)]
        share = choice.depth / len(drafted.widths)
        widths = drafted.widths[: choice.depth]
        for name, own in found.items():
            rule = METHODS[name].rule
            if (name, nodes) not in known:
                tree = pruned(few, columns)
                known[name, nodes] = float(expected.tokens(tree, expected.REACH[rule](tree, p[:, rows]))[0])
            if (name, choice.budget) not in watch.calls:
                tree, said = pruned(seen, columns), logits[:, rows]
                with watch.time(name, choice.budget):
                    verify(tree, said, drafted.uniforms, process, rule)
            # With a beam that is never filled a smaller one says the same.
            own.setdefault(choice, Found(known[name, nodes], widths, drafted.growth * share))
