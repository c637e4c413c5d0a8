"""A guess at the kind of fault behind a deviation: which simple story explains most of it.

The stories know nothing of the sampler: at the first position that deviates, its law is compared with the target's of
other temperatures, of other prefixes, and with mixtures of target and draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from reference.distributions import temper
from verify.battery import Trial
from verify.joint import prefixes
from verify.plan import Plan
from verify.run import Progress
from verify.shards import trial_temperature
from verify.tally import Ruling, Tally

Law = NDArray[np.float64]

_SAME = 100  # pairs of equal rows that are no accident
_EXPLAINED = 0.5  # the share of a deviation that a story must explain to be told


def guess(plan: Plan, progress: Progress, worst: Ruling) -> str:
    """One line on what may be wrong."""
    if worst.evidence.test == "repeated shards":
        return "different seeds give the same samples: the seed is not used"
    if worst.evidence.test == "too even":
        return "counts are closer to the law than independent rows come: rows are drawn to complement each other"
    trial, tally, law = plan.trials[worst.trial], progress.tallies[worst.trial], plan.laws[worst.trial]
    if rows_depend(tally):
        return "rows depend on each other: rows of a batch share randomness"
    shape = (trial.toy.vocab,) * trial.length
    seen, expected = tally.cells.reshape(shape), law.reshape(shape)
    position = first_deviating(seen, expected)
    place = "the first token" if position == 0 else f"token {position + 1}, not the ones before it"
    if worst.evidence.test == "impossible":
        story = "a token that the target rules out is emitted: a draft is accepted unseen, or the residual is not p's"
    else:
        story = explain(trial, seen, position) or "no simple story explains it"
    return f"deviates from {place}: {story}"


def rows_depend(tally: Tally) -> bool:
    """Whether pairs of rows are further from independence than noise takes them, whatever the law of each row is."""
    own = tally.cells / max(tally.samples, 1)
    for pairs in tally.pairs:
        n = int(pairs.sum())
        if np.trace(pairs) == n and n > _SAME:  # all of a shard may be one sequence, which is independent of itself
            return True
        expected = n * np.outer(own, own)
        # The mean of a cell's |count - expected| is near sqrt(2 expected / pi); their sum hardly leaves its own mean.
        if np.abs(pairs - expected).sum() > 2 * np.sqrt(2 * expected / np.pi).sum():
            return True
    return False


def first_deviating(seen: NDArray[np.int64], expected: Law) -> int:
    """The first position whose marginal law (with all before it) is as far off as noise will hardly make it."""
    n = seen.sum()
    for t in range(seen.ndim):
        later = tuple(range(t + 1, seen.ndim))
        e, p = seen.sum(axis=later) / n, expected.sum(axis=later)
        if np.any(np.abs(e - p) > 5 * np.sqrt(p * (1 - p) / n) + 1e-12):
            return t
    return seen.ndim - 1


def explain(trial: Trial, seen: NDArray[np.int64], position: int) -> str | None:
    """The story that explains most of the deviation at a position, over all contexts; None if none explains half."""
    counts = seen.sum(axis=tuple(range(position + 1, seen.ndim))).reshape(-1, trial.toy.vocab)
    kept = counts.sum(axis=1) > 0
    contexts = prefixes(trial.toy.vocab, position)[kept]
    weights = counts[kept].sum(axis=1, keepdims=True) / counts.sum()
    e = counts[kept] / counts[kept].sum(axis=1, keepdims=True)

    def off(law: Law) -> float:
        return float((weights * np.abs(e - law)).sum() / 2)

    p, _ = laws_after(trial, contexts)
    before = off(p)
    left, _, story = min(
        (round(off(law) / before, 2), place, text) for place, (law, text) in enumerate(stories(trial, contexts, off))
    )
    return f"{story} ({1 - left:.0%} of it explained)" if left < 1 - _EXPLAINED else None


def stories(trial: Trial, contexts: NDArray[np.int64], off: Callable[[Law], float]) -> Iterator[tuple[Law, str]]:
    """Laws [n, V] after contexts that kinds of faults lead to, fitted where they have a parameter."""
    p, q = laws_after(trial, contexts)
    for other, (law, (towards, away)) in partners(p, q).items():
        fit = minimize_scalar(lambda w, law=law: off((1 - w) * p + w * law), bounds=(-1, 1), method="bounded")
        share = float(fit.x)
        way, meaning = ("towards", towards) if share > 0 else ("away from", away)
        yield (1 - share) * p + share * law, f"p pulled {way} {other} by {abs(share):.3f}: {meaning}"
    fit = minimize_scalar(lambda x: off(laws_after(trial, contexts, np.exp(x))[0]), bounds=(-3, 3), method="bounded")
    temperature = float(np.exp(fit.x))
    yield laws_after(trial, contexts, temperature)[0], f"as if p had temperature {temperature:.2f}"
    if contexts.shape[1]:
        yield laws_after(trial, contexts[:, :-1])[0], "the law without the last token: the parent's row"
        for shift in range(1, trial.toy.vocab):
            sibling = contexts.copy()
            sibling[:, -1] = (sibling[:, -1] + shift) % trial.toy.vocab
            yield laws_after(trial, sibling)[0], "the law after another last token: a sibling's row"


def partners(p: Law, q: Law) -> dict[str, tuple[Law, tuple[str, str]]]:
    """Laws [n, V] that a fault may mix into p, by name, and what it means to be pulled towards each, or away."""
    tail = np.where(q == q.max(axis=1, keepdims=True), 0.0, q)
    likeliest = np.where(p == p.max(axis=1, keepdims=True), 1.0, 0.0)
    return {
        "the draft": (q, ("drafts pass too easily", "drafts pass too rarely")),
        "the draft's tail": (_normal(tail, q), ("probes pass too easily", "probes pass too rarely")),
        "the residual": (_normal(np.maximum(p - q, 0), p), ("too much is rejected", "too little is rejected")),
        "its likeliest token": (_normal(likeliest, p), ("a greedy step", "a step that shuns the likeliest")),
        "all tokens alike": (np.full_like(p, 1 / p.shape[1]), ("a law too flat", "a law too sharp")),
    }


def _normal(weights: Law, otherwise: Law) -> Law:
    """Weights [n, V] as laws; a row without any is taken from another."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, weights / np.where(total > 0, total, 1), otherwise))


def laws_after(trial: Trial, contexts: NDArray[np.int64], temperature: float | None = None) -> tuple[Law, Law]:
    """p and q [n, V] after contexts [n, t], at the trial's temperature or another."""
    own = trial_temperature(trial.settings) if temperature is None else temperature
    p, q = (np.stack([temper(row, own) for row in model(contexts)]) for model in (trial.toy.p, trial.toy.q))
    return p, q
