"""Controls with a dial: samplers whose total variation on whole sequences is what their settings say.

They verify that the harness misses no more often than it claims: `verify.dials:mixture` and
`verify.dials:against_mixture`, with {"dial_tv": 0.005} or another total variation among the settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from reference.distributions import temper
from rheo.config import Config
from rheo.methods import METHODS, Method
from verify.joint import Toy, joint_law, prefixes
from verify.mutants.targets import against_mixture as against
from verify.subjects import Samples, Subject, TorchSubject, config_of

Law = NDArray[np.float64]

_DIAL = 5e-3


@dataclass(frozen=True)
class Mixture:
    """Whole sequences drawn from (1 - e) target + e other, their total variation from the target being `tv`."""

    temperature: float
    tv: float

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        law = moved(joint_law(toy, self.temperature, length), self.tv)
        sequences = prefixes(toy.vocab, length)
        return np.asarray(sequences[np.random.default_rng(seed).choice(len(law), count, p=law)])


def moved(law: Law, tv: float) -> Law:
    """A law [cells] at a total variation of exactly tv: mixed with itself on some cells that hold about half of it.

    Spread in proportion to the law and over half of it, a deviation is least visible to chi-square. ValueError where
    so much cannot be moved that way.
    """
    lifted = np.zeros(len(law), dtype=bool)
    held = 0.0
    for cell in np.argsort(-law):
        if held + law[cell] <= 0.5:
            lifted[cell], held = True, held + law[cell]
    if not (held > 0 and 0 <= tv <= 1 - held):
        raise ValueError(f"dial_tv: must lie in 0..{1 - held if held else 0.0:.3g} on this toy, got {tv}")
    share = tv / (1 - held)
    return np.asarray((1 - share) * law + share * np.where(lifted, law, 0.0) / held)


@dataclass(frozen=True)
class AgainstMixture:
    """The torch sampler verifying against w p + (1 - w) q, where w makes the total variation of sequences `tv`.

    On one token that total variation is (1 - w) TV(p, q).
    """

    config: Config
    method: Method
    tv: float

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        return self.rounds(toy, length, count, seed)[0]

    def rounds(self, toy: Toy, length: int, count: int, seed: int) -> tuple[Samples, Samples]:
        play = against(weight_of(toy, float(self.config.temperature), length, self.tv))
        return TorchSubject(self.config, self.method, play).rounds(toy, length, count, seed)


def blended(toy: Toy, temperature: float, length: int) -> Callable[[float], Law]:
    """w -> the joint law [vocab ** length] of a sampler that follows w p + (1 - w) q after every prefix."""
    rows = []
    for t in range(length):
        before = prefixes(toy.vocab, t)
        rows.append([np.stack([temper(row, temperature) for row in model(before)]) for model in (toy.p, toy.q)])

    def law(weight: float) -> Law:
        found = np.ones(1)
        for p, q in rows:
            found = (found[:, None] * (weight * p + (1 - weight) * q)).ravel()
        return found

    return law


def weight_of(toy: Toy, temperature: float, length: int, tv: float) -> float:
    """The w with which sequences deviate by a total variation of tv. ValueError where even w = 0 deviates less."""
    law = blended(toy, temperature, length)

    def beyond(weight: float) -> float:
        return float(np.abs(law(weight) - law(1.0)).sum() / 2) - tv

    if not (tv > 0 and beyond(0.0) >= 0):
        raise ValueError(f"dial_tv: must be positive and at most {beyond(0.0) + tv:.3g} on this toy, got {tv}")
    return float(brentq(beyond, 0.0, 1.0, xtol=1e-15, rtol=1e-14))


def mixture(settings: dict[str, Any]) -> Subject:
    """Sequences drawn without any model or tree: settings "temperature" and "dial_tv"."""
    return Mixture(float(config_of(settings).temperature), float(settings.get("dial_tv", _DIAL)))


def against_mixture(settings: dict[str, Any]) -> Subject:
    """The torch sampler against a blend of both models: settings of a Config, "method" and "dial_tv"."""
    method = METHODS[settings.get("method", "rheo")]
    return AgainstMixture(config_of(settings), method, float(settings.get("dial_tv", _DIAL)))
