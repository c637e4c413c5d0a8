"""A node's surviving children, and the two ways to test one of them against a running residual."""

from __future__ import annotations

from dataclasses import dataclass

from reference.choose import Choose, Site, bernoulli
from reference.distributions import Array, Number, residual, without


@dataclass(frozen=True)
class Children:
    """Tokens of a node's surviving children.

    anchors and fillers: in slot order. probe: its token, or None if the node has no probe or it did not survive.
    law: q~ over the vocabulary [vocab], the distribution the probe was drawn from; None without a probe.
    """

    anchors: tuple[int, ...]
    probe: int | None
    fillers: tuple[int, ...]
    law: Array | None


@dataclass(frozen=True)
class Verdict:
    """The child whose token was accepted, or None; and what is left of p for the tests that follow."""

    accepted: int | None
    rest: Array


def try_points(p: Array, tokens: tuple[int, ...], choose: Choose, depth: int, first: int) -> Verdict:
    """Test deterministic children one after the other: accept x with probability p(x), else zero it, renormalise."""
    for position, token in enumerate(tokens, start=first):
        if bernoulli(p[token], choose, Site("coin", depth, position)):
            return Verdict(token, p)
        p = without(p, token)
    return Verdict(None, p)


def acceptance(p: Array, token: int, law: Array) -> Number:
    """min(1, p(x)/q~(x)) for a probe that was drawn from `law`."""
    return min(1 + 0 * p[token], p[token] / law[token])


def try_probe(p: Array, token: int, law: Array, choose: Choose, depth: int) -> Verdict:
    """Test a child drawn from `law`; its rejection leaves the residual of p and that law."""
    if bernoulli(acceptance(p, token, law), choose, Site("coin", depth)):
        return Verdict(token, p)
    return Verdict(None, residual(p, law))
