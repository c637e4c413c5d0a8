"""K-SEQ: siblings drawn from the same law, each accepted with probability min(1, p / (rho q)).

Source: SpecTr (Sun et al., 2023). With beta = sum of min(p / rho, q) one of K siblings is accepted with probability
c = 1 - (1 - beta)^K, and what is due beside it is p - min(p / rho, q) c / beta: not negative if c <= rho beta. The
least such rho accepts most, but is irrational; any larger one is as lossless, so it is rounded up, to a multiple of
2^-20. That costs less than K 2^-20 of c. In floats 1 - beta and 1 - rho beta are summed as what p and q leave of each
other: where p equals q, the K-th root of a rounding error would be felt.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from reference.choose import Choose, Site, bernoulli
from reference.distributions import Array, Number, normalise
from reference.rules.children import Children, Verdict, acceptance, draw_or_refuse, refuse_slots

STEPS = 1 << 20  # of rho, in 1


def recursive(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """Child after child, all with the same factor. ValueError if one is no draw, or was drawn from another law."""
    if not children.draws:
        return Verdict(None, p)
    rho = factor_for(p, children)
    for position, (token, law) in enumerate(zip(children.draws, children.laws, strict=True), start=1):
        if bernoulli(acceptance(p, token, rho * law), choose, Site("coin", depth, position)):
            return Verdict(token, p)
    return Verdict(None, rest(p, children.laws[0], len(children.draws), rho))


def single_draw(p: Array, children: Children, choose: Choose, depth: int) -> Array:
    """All mass on the child that the one coin picks; on none, what is due beside all of them."""
    if not children.draws:
        return p
    rho = factor_for(p, children)
    chances = [acceptance(p, token, rho * law) for token, law in zip(children.draws, children.laws, strict=True)]
    left = rest(p, children.laws[0], len(children.draws), rho)
    return draw_or_refuse(chances, left, children.draws, choose, Site("coin", depth))


def factor_for(p: Array, children: Children) -> Number:
    """The rho of a node's children."""
    refuse_slots(children)
    law = children.laws[0]
    if any(np.any(other != law) for other in children.laws[1:]):
        raise ValueError("K-SEQ is for siblings that were all drawn from the same law")
    return factor(tuple(p), tuple(law), len(children.draws))


@lru_cache(maxsize=4096)
def factor(p: tuple[Number, ...], law: tuple[Number, ...], count: int) -> Number:
    """The least rho in [1, count] that is a multiple of 2^-20 and lossless; p, law: [vocab]."""
    target, draft = np.array(p), np.array(law)
    low, high = STEPS - 1, count * STEPS  # high will do, and so will all above one that does
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if covers(target, draft, count, multiple(middle, target)) else (middle, high)
    return multiple(high, target)


def multiple(steps: int, like: Array) -> Number:
    """steps x 2^-20 as the kind of number that `like` holds."""
    return Fraction(steps, STEPS) if like.dtype == object else steps / STEPS


def covers(p: Array, law: Array, count: int, rho: Number) -> bool:
    """Whether nothing is accepted more often than p allows: c <= rho beta."""
    return bool(refused(p, law, count, rho) >= np.maximum(p - rho * law, 0 * p).sum())


def refused(p: Array, law: Array, count: int, rho: Number) -> Number:
    """1 - c: the probability that all of `count` draws are refused."""
    return np.maximum(law - p / rho, 0 * p).sum() ** count


def rest(p: Array, law: Array, count: int, rho: Number) -> Array:
    """What is due [vocab] when all draws were refused; p itself where nothing is, or nothing could be accepted."""
    taken = np.minimum(p / rho, law)
    if not taken.sum() > 0:
        return p
    due = np.maximum(p - taken * ((1 - refused(p, law, count, rho)) / taken.sum()), 0 * p)
    return normalise(due) if due.sum() > 0 else p
