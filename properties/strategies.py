"""Strategies that really produce zeros, ties, one-hot and near-delta rows, equal and disjoint pairs."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from rheo.config import Config
from verify.cases import Case
from verify.toys import Table, Toy, Weights

TEMPERATURES = (Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(0))


@st.composite
def rows(draw: st.DrawFn, vocab: int) -> Weights:
    """One row of weights: of any kind, but never all zero."""
    kind = draw(st.sampled_from(("any", "ties", "zeros", "one-hot", "near-delta")))
    lucky = draw(st.integers(0, vocab - 1))
    if kind == "one-hot":
        return tuple(int(i == lucky) for i in range(vocab))
    if kind == "near-delta":
        return tuple(1_000 if i == lucky else 1 for i in range(vocab))
    values = {"any": st.integers(1, 20), "ties": st.sampled_from((1, 1, 2)), "zeros": st.sampled_from((0, 0, 1, 3))}
    return tuple(max(draw(values[kind]), int(i == lucky)) for i in range(vocab))


@st.composite
def pairs(draw: st.DrawFn, vocab: int) -> tuple[Weights, Weights]:
    """p and q at one context: equal, disjoint, or drawn apart."""
    p, q = draw(rows(vocab)), draw(rows(vocab))
    kind = draw(st.sampled_from(("apart", "apart", "equal", "disjoint")))
    if kind == "equal":
        return p, p
    if kind == "disjoint":
        rest = tuple(0 if weight else 1 for weight in p)
        return (p, rest) if any(rest) else (p, q)
    return p, q


@st.composite
def toys(draw: st.DrawFn, vocab: int, depth: int) -> Toy:
    """A toy that lists every prefix of up to `depth` tokens."""
    prefixes = [prefix for length in range(depth + 1) for prefix in product(range(vocab), repeat=length)]
    listed = {prefix: draw(pairs(vocab)) for prefix in prefixes}
    default = (1,) * vocab
    target = Table(default, {prefix: p for prefix, (p, _) in listed.items()})
    return Toy(vocab, target, Table(default, {prefix: q for prefix, (_, q) in listed.items()}))


@st.composite
def configs(draw: st.DrawFn, vocab: int, depth: int) -> Config:
    """Any configuration that makes sense for the vocabulary, truncating ones included."""
    slots = draw(st.integers(1, 4))
    return Config(
        anchors=draw(st.integers(0, slots - 1)),
        slots=slots,
        beam=draw(st.integers(1, 3)),
        depth=depth,
        budget=draw(st.integers(1, 8)),
        support=draw(st.one_of(st.none(), st.integers(1, vocab))),
        temperature=draw(st.sampled_from(TEMPERATURES)),
    )


@st.composite
def cases(draw: st.DrawFn, largest_vocab: int = 4, deepest: int = 2) -> Case:
    """A toy with a configuration, small enough for its exact law to take milliseconds."""
    vocab, depth = draw(st.integers(1, largest_vocab)), draw(st.integers(1, deepest))
    return Case("drawn", draw(toys(vocab, depth)), draw(configs(vocab, depth)))
