"""Strategies that really produce zeros, ties, one-hot and near-delta rows, equal and disjoint pairs.

`properties.kinds` measures how often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import strategies as st

from reference import lazy
from reference.choose import Site
from reference.distributions import Array, exact, temper
from reference.growths import GROWTHS
from reference.methods import METHODS, SLOTTED
from reference.rules import RULES, Rule
from reference.rules.children import Children
from reference.tree import Tree
from reference.verification import survivors
from rheo.acceptance import Acceptance
from rheo.calibration import Calibration, Curve
from rheo.config import Config
from verify.cases import Case
from verify.laws import draft_of, target_of
from verify.toys import Table, Tokens, Toy, Weights
from verify.transport import slot_plan

TEMPERATURES = (Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(0))
SHAPES = ((0, 1), (1, 2), (0, 2), (1, 3), (0, 3), (2, 3), (1, 4), (0, 4), (2, 4), (3, 4))  # anchors, slots
BUDGETS = (1, 2, 3, 4, 5, 8, 12, 20, 20)
CALIBRATED = tuple(name for name in SLOTTED if METHODS[name].growth in (GROWTHS["calibrated"], GROWTHS["adaptive"]))
LARGE = 1_000  # the weight of a near-delta's token beside ones


def vocabs(largest: int) -> st.SearchStrategy[int]:
    """1 to `largest` tokens, and that many oftenest: small vocabularies leave no room for fillers."""
    return st.sampled_from((*range(1, largest + 1), largest, largest))


@st.composite
def rows(draw: st.DrawFn, vocab: int) -> Weights:
    """One row of weights: of any kind, but never all zero."""
    kind = draw(st.sampled_from(("any", "ties", "zeros", "one-hot", "near-delta")))
    lucky = draw(st.integers(0, vocab - 1))
    if kind == "one-hot":
        return tuple(int(i == lucky) for i in range(vocab))
    if kind == "near-delta":
        return tuple(LARGE if i == lucky else 1 for i in range(vocab))
    values = {"any": range(1, 21), "ties": (1, 1, 2), "zeros": (0, 0, 1, 3)}[kind]
    return tuple(max(draw(st.sampled_from(values)), int(i == lucky)) for i in range(vocab))


@st.composite
def pairs(draw: st.DrawFn, vocab: int) -> tuple[Weights, Weights]:
    """p and q at one context: equal, disjoint, or drawn apart."""
    kind = draw(st.sampled_from(("apart", "apart", "equal", "disjoint")))
    p, q = draw(rows(vocab)), draw(rows(vocab))
    if kind == "equal":
        return p, p
    if kind == "disjoint" and vocab > 1:
        own = draw(st.sets(st.integers(0, vocab - 1), min_size=1, max_size=vocab - 1))
        return (
            tuple(max(w, 1) if i in own else 0 for i, w in enumerate(p)),
            tuple(0 if i in own else max(w, 1) for i, w in enumerate(q)),
        )
    return p, q


@st.composite
def toys(draw: st.DrawFn, vocab: int, depth: int) -> Toy:
    """A toy that lists every prefix of up to `depth` tokens. They share a few pairs, so scores tie across nodes."""
    palette = draw(st.lists(pairs(vocab), min_size=1, max_size=draw(st.sampled_from((1, 2, 6)))))
    prefixes = [prefix for length in range(depth + 1) for prefix in product(range(vocab), repeat=length)]
    listed = {prefix: draw(st.sampled_from(palette)) for prefix in prefixes}
    default = (1,) * vocab
    target = Table(default, {prefix: p for prefix, (p, _) in listed.items()})
    return Toy(vocab, target, Table(default, {prefix: q for prefix, (_, q) in listed.items()}))


PARTS = tuple(Fraction(i, n) for n in (2, 3, 5, 7) for i in range(1, n))


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """What slots may be worth: with corners, flat parts, and jumps away from 0."""
    corners = draw(st.lists(st.sampled_from(PARTS), max_size=2, unique=True))
    x = [Fraction(0), *sorted(corners), Fraction(1)]
    y = draw(st.lists(st.sampled_from((*PARTS, Fraction(0), Fraction(1))), min_size=len(x), max_size=len(x)))
    return tuple(zip(x, sorted(y), strict=True))


def calibrations() -> st.SearchStrategy[Calibration]:
    """Any, of one curve or two by depth."""
    by_depth = st.lists(curves(), min_size=1, max_size=2).map(tuple)
    return st.builds(Calibration, by_depth, by_depth, by_depth)


@st.composite
def configs(draw: st.DrawFn, vocab: int, depth: int) -> Config:
    """Any configuration that makes sense for the vocabulary, truncating ones included."""
    anchors, slots = draw(st.sampled_from(SHAPES))
    return Config(
        anchors=anchors,
        slots=slots,
        beam=draw(st.sampled_from((1, 2, 3, 5))),
        depth=depth,
        budget=draw(st.sampled_from(BUDGETS)),
        support=draw(st.one_of(st.none(), st.integers(1, vocab))),
        temperature=draw(st.sampled_from(TEMPERATURES)),
        calibration=draw(st.one_of(st.none(), calibrations())),
    )


@st.composite
def cases(draw: st.DrawFn, largest_vocab: int = 4, deepest: int = 2) -> Case:
    """A toy with a configuration, small enough for its exact law to take milliseconds."""
    vocab, depth = draw(vocabs(largest_vocab)), draw(st.integers(1, deepest))
    return Case("drawn", draw(toys(vocab, depth)), draw(configs(vocab, depth)))


@st.composite
def fixed_cases(draw: st.DrawFn) -> Case:
    """Cases for trees of fixed shape: siblings that are drawn one after the other, few enough for an exact law."""
    vocab, depth = draw(st.sampled_from((4, 4, 3))), draw(st.sampled_from((1, 2)))
    slots, budget = draw(st.sampled_from((2, 3))), draw(st.integers(2, 5 if depth == 1 else 4))
    support, temperature = draw(st.one_of(st.none(), st.integers(2, vocab))), draw(st.sampled_from(TEMPERATURES[:2]))
    rates = draw(st.lists(st.sampled_from((Fraction(0), *PARTS)), min_size=slots - 1, max_size=slots - 1))
    acceptance = Acceptance((draw(st.sampled_from(PARTS)), *rates))
    config = Config(0, slots, 2, depth, budget, support, temperature, acceptance=acceptance)
    return Case("drawn", draw(toys(vocab, depth)), config)


@st.composite
def deep_cases(draw: st.DrawFn) -> Case:
    """Deep trees in which scores of different branches and depths tie, for parity: too large for exact laws.

    The last token decides the draft's row, so the same factors come up in another order; in floats their products
    may differ in the last bits.
    """
    vocab, depth = draw(st.sampled_from((4, 3, 2))), draw(st.sampled_from((4, 3)))
    palette = draw(st.lists(st.tuples(*[st.integers(1, 12)] * vocab), min_size=1, max_size=3))
    prefixes = [prefix for length in range(1, depth) for prefix in product(range(vocab), repeat=length)]
    listed = {prefix: palette[prefix[-1] % len(palette)] for prefix in prefixes}
    anchors, slots = draw(st.sampled_from(SHAPES[1:]))
    beam, budget = draw(st.sampled_from((5, 4, 3, 2))), draw(st.integers(8, 22))
    toy = Toy(vocab, Table((1,) * vocab, {}), Table(palette[0], listed))
    temperature, calibration = draw(st.sampled_from(TEMPERATURES)), draw(st.one_of(st.none(), calibrations()))
    return Case("drawn", toy, Config(anchors, slots, beam, depth, budget, None, temperature, calibration))


def without_ties(case: Case) -> Case:
    """The case with no two positive draft weights of a context equal, in the same order where they were not."""

    def untied(row: Weights) -> Weights:
        return tuple(w * len(row) + i if w else 0 for i, w in enumerate(row))

    draft = case.toy.draft
    table = Table(untied(draft.default), {prefix: untied(row) for prefix, row in draft.listed.items()})
    return replace(case, toy=replace(case.toy, draft=table))


@dataclass(frozen=True)
class Grown:
    """A reference tree, and what it was grown for and by."""

    case: Case
    method: str
    tree: Tree


@st.composite
def trees(draw: st.DrawFn, largest_vocab: int = 4, deepest: int = 3) -> Grown:
    """Any tree of positive probability of any case: Hypothesis chooses the probes."""
    case, method = draw(cases(largest_vocab, deepest)), draw(st.sampled_from(SLOTTED))

    def choose(weights: Array, site: Site) -> int:
        return draw(st.sampled_from(np.flatnonzero(weights).tolist()))

    return Grown(case, method, lazy.grow(draft_of(case), case.config, METHODS[method].growth, choose))


@dataclass(frozen=True)
class Family:
    """A node with its surviving children: p [vocab] there, at its temperature; the node's depth; a rule for them."""

    p: Array
    children: Children
    depth: int
    rule: Rule


@st.composite
def families(draw: st.DrawFn) -> Family:
    """Any node of any tree."""
    grown = draw(trees(largest_vocab=5, deepest=2))
    path, tokens = draw(st.sampled_from([((), ()), *((node.path, node.tokens) for node in grown.tree.nodes)]))
    p = target_of(grown.case)(tokens)
    children = survivors(grown.tree, path, len(p))
    for_slots = ("probe_first", "rrsw", *(() if children.probe is not None else ("point_mass",)))
    fit = [RULES[name] for name in for_slots]
    return Family(p, children, len(path), draw(st.sampled_from(fit)))


@dataclass(frozen=True)
class Parent:
    """A node before its probe is drawn: p [vocab] at its temperature, untempered draft weights [vocab], settings.

    fillers: how many fillers survive beside each token that the probe can be, in draft order; for `node_trees`.
    """

    p: Array
    draft: Array
    config: Config
    fillers: tuple[int, ...]


@st.composite
def parents(draw: st.DrawFn, largest_vocab: int = 6) -> Parent:
    """Any node: probes may keep different numbers of fillers, as where a budget cuts between them."""
    vocab = draw(vocabs(largest_vocab))
    p, q = draw(pairs(vocab))
    config = draw(configs(vocab, depth=1))
    tail = slot_plan(exact(q), config, METHODS["rheo"]).tail
    room = st.integers(0, config.slots - config.anchors - 1)
    fillers = draw(st.tuples(*[room] * len(tail)))
    return Parent(temper(exact(p), config.temperature), exact(q), config, fillers)


@dataclass(frozen=True)
class Request:
    """One request of a batch: its context, and the seed of its uniforms."""

    context: Tokens
    seed: int


def batches(vocab: int, longest: int = 3, largest: int = 5) -> st.SearchStrategy[list[Request]]:
    """Requests with contexts of different lengths; some are equal, as are some seeds."""
    context = st.lists(st.integers(0, vocab - 1), max_size=longest).map(tuple)
    return st.lists(st.builds(Request, context, st.integers(0, 20)), min_size=1, max_size=largest)
