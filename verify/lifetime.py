"""One lifetime of auditing: what is fixed before it, what has been counted in it, and what that says.

Every token becomes one randomised PIT. Its randomiser is a function of the seed and of the token's number in the
lifetime, so an audit that was stopped and resumed computes what an uninterrupted one does, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from verify import eprocess
from verify.power import ks_detectable
from verify.trace import Chunk

# Of the histogram behind the Kolmogorov distance, which is read off at the edges of its bins: at most 1/BINS below what
# it is between them.
BINS = 1 << 14


@dataclass(frozen=True)
class Plan:
    """What is fixed before a lifetime begins.

    alpha: its false-alarm rate. tokens: how many the Kolmogorov test is for, None for none; alpha is then halved
    between it and the e-process. seed: of the randomiser.
    """

    alpha: float
    seed: int
    tokens: int | None

    @property
    def alpha_each(self) -> float:
        return self.alpha if self.tokens is None else self.alpha / 2


@dataclass(frozen=True)
class Seen:
    """A trace, and how many of its rows were counted. size, sha256: of the file; complete: those were all its rows."""

    name: str
    size: int
    sha256: str
    rows: int = 0
    complete: bool = False


@dataclass(frozen=True)
class Lifetime:
    """Everything counted so far.

    bins: of the first plan.tokens PIT values, int64 [BINS]. impossible: tokens of probability 0, and where the first of
    them was. order: of the traces, which is the same for all. seen: the traces. before: while a trace is being read,
    the lifetime without it, for if it turns out to be malformed.
    """

    plan: Plan
    order: str = ""
    eprocess: eprocess.State = field(default_factory=eprocess.State)
    bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, dtype=np.int64))
    impossible: int = 0
    first_impossible: str = ""
    seen: tuple[Seen, ...] = ()
    before: Lifetime | None = None

    @property
    def tokens(self) -> int:
        return self.eprocess.samples


def uniforms(seed: int, first: int, count: int) -> NDArray[np.float64]:
    """The randomisers [count], in [0, 1), of the tokens numbered from `first`. Philox gives four numbers a counter."""
    raw = np.random.Philox(key=seed, counter=first // 4).random_raw(first % 4 + count)[first % 4 :]
    return np.asarray((raw >> np.uint64(11)) * 2.0**-53)


def count(lifetime: Lifetime, chunk: Chunk, name: str) -> Lifetime:
    """The lifetime after the rows of a chunk of the trace with this name."""
    p_token, p_before = chunk.columns["p_token"], chunk.columns["p_before"]
    pit = p_before + uniforms(lifetime.plan.seed, lifetime.tokens, len(chunk)) * p_token
    pit = np.minimum(pit, 1.0)  # sums of probabilities may exceed 1 by a tolerance
    bins = lifetime.bins
    if lifetime.plan.tokens is not None and lifetime.tokens < lifetime.plan.tokens:
        tested = pit[: lifetime.plan.tokens - lifetime.tokens]
        bins = bins + np.bincount(np.minimum((tested * BINS).astype(np.intp), BINS - 1), minlength=BINS)
    impossible = np.flatnonzero(p_token == 0)
    first = lifetime.first_impossible
    if len(impossible) and not lifetime.impossible:
        first = f"{name}: {chunk.place(int(impossible[0]))}"
    return replace(
        lifetime,
        eprocess=eprocess.update(lifetime.eprocess, pit),
        bins=bins,
        impossible=lifetime.impossible + len(impossible),
        first_impossible=first,
    )


@dataclass(frozen=True)
class Finding:
    """What one test says. p_value: at any time, for the e-process.

    detectable: the smallest Kolmogorov distance that it finds with the stated miss rate; None if it finds none.
    """

    test: str
    tokens: int
    alpha: float
    statistic: float
    p_value: float
    rejects: bool
    detectable: float | None


def findings(lifetime: Lifetime, beta: float) -> list[Finding]:
    """The e-process (statistic: log10 of its largest e-value), and the Kolmogorov test once it has its tokens."""
    plan, state = lifetime.plan, lifetime.eprocess
    alpha = plan.alpha_each
    found = [
        Finding(
            "e-process", state.samples, alpha, state.log_peak / math.log(10), math.exp(-state.log_peak),
            state.rejects(alpha), eprocess.detectable(state.samples, alpha, beta),
        )
    ]  # fmt: skip
    if plan.tokens is not None and state.samples >= plan.tokens:
        distance, p_value = kolmogorov(lifetime.bins)
        detectable = ks_detectable(plan.tokens, alpha, beta) + 1 / BINS
        found.append(
            Finding(
                "Kolmogorov", plan.tokens, alpha, distance, p_value, p_value <= alpha,
                detectable if detectable < 1 else None,
            )
        )  # fmt: skip
    return found


def kolmogorov(bins: NDArray[np.int64]) -> tuple[float, float]:
    """The Kolmogorov distance of a histogram from the uniform at the edges of its bins, and a p-value.

    Both are conservative: between the edges the distance can only be larger, and the p-value is the bound of Dvoretzky,
    Kiefer and Wolfowitz, which holds for any number of samples.
    """
    total = int(bins.sum())
    distance = float(np.abs(np.cumsum(bins) / total - np.arange(1, len(bins) + 1) / len(bins)).max())
    return distance, min(1.0, 2 * math.exp(-2 * total * distance**2))


def verdict(lifetime: Lifetime, found: list[Finding]) -> str:
    """lossy: a token of probability 0, or a test rejects. inconclusive: too few tokens. lossless: nothing against."""
    if lifetime.impossible or any(finding.rejects for finding in found):
        return "lossy"
    planned = lifetime.plan.tokens
    if (planned is not None and lifetime.tokens < planned) or all(finding.detectable is None for finding in found):
        return "inconclusive"
    return "lossless"
