"""A node's surviving children, and the two ways to test one of them against a running residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reference.choose import Choose, Site, bernoulli
from reference.distributions import Array, Number, residual, without


@dataclass(frozen=True)
class Children:
    """Tokens of a node's surviving children.

    anchors and fillers: in slot order. probe: its token, or None if the node has no probe or it did not survive.
    law: q~ over the vocabulary [vocab], the distribution the probe was drawn from; None without a probe.
    draws: tokens of siblings that were drawn one after the other, and laws: those [vocab] they were drawn from.
    """

    anchors: tuple[int, ...]
    probe: int | None
    fillers: tuple[int, ...]
    law: Array | None
    draws: tuple[int, ...] = ()
    laws: tuple[Array, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.anchors, *self.fillers, *self.draws, *(() if self.probe is None else (self.probe,)))


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


def try_probe(p: Array, token: int, law: Array, choose: Choose, depth: int, position: int = 0) -> Verdict:
    """Test a child drawn from `law`; its rejection leaves the residual of p and that law."""
    if bernoulli(acceptance(p, token, law), choose, Site("coin", depth, position)):
        return Verdict(token, p)
    return Verdict(None, residual(p, law))


def draw_or_refuse(chances: Sequence[Number], rest: Array, tokens: Sequence[int], choose: Choose, site: Site) -> Array:
    """The tests of several children by one coin: all mass on the first that is accepted, else `rest` [vocab].

    chances: the probability of each to be accepted once those before it were refused.
    """
    weights: list[Number] = []
    left: Number = 1 + 0 * rest.sum()
    for chance in chances:
        weights.append(left * chance)
        left = left - weights[-1]
    picked = choose(np.array([*weights, left]), site)
    if picked == len(tokens):
        return rest
    accepted = 0 * rest
    accepted[tokens[picked]] = 1 + accepted[tokens[picked]]
    return accepted


def refuse_slots(children: Children) -> None:
    """ValueError if one of them was not drawn as the siblings before it were, but has a slot."""
    if children.anchors or children.fillers or children.probe is not None:
        raise ValueError("this rule is for children drawn one after the other, not for anchors, probes and fillers")
