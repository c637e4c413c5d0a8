"""Samplers under test, right and wrong, each a factory that a spec can name."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.joint import Toy, joint_law


@dataclass(frozen=True)
class Direct:
    """Whole sequences drawn from their joint law, with a total variation `dial`: mass moved to the likeliest."""

    temperature: float
    dial: float = 0.0

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> NDArray[np.int64]:
        law = joint_law(toy, self.temperature, length)
        likeliest = np.arange(len(law)) == law.argmax()
        if self.dial:
            law = np.where(likeliest, law + self.dial, law * (1 - self.dial / law[~likeliest].sum()))
        cells = np.random.default_rng(seed).choice(len(law), count, p=law)
        return np.stack(np.unravel_index(cells, (toy.vocab,) * length), axis=1)


@dataclass(frozen=True)
class WithRounds(Direct):
    """The same, which says that every round emitted `tau` tokens."""

    tau: int = 2

    def rounds(self, toy: Toy, length: int, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.sample(toy, length, count, seed), np.full((count, -(-length // self.tau)), self.tau)


@dataclass(frozen=True)
class Wrong(Direct):
    """A right sampler with one thing done to it, by name."""

    how: str = ""

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Any:
        if self.how == "hangs":
            time.sleep(1_000)
        if self.how == "dies":
            os._exit(7)
        if self.how == "raises":
            raise RuntimeError("no\nluck")
        samples = Direct.sample(self, toy, length, count, 5 if self.how == "seedless" else seed)
        if self.how == "shares":
            samples[1::2] = samples[: len(samples) // 2 * 2 : 2]
        half = len(samples) // 2
        if self.how == "offset":
            samples[2::2] = samples[1 : len(samples) - 1 : 2]
        if self.how == "two-apart":
            fours = samples[: len(samples) // 4 * 4].reshape(-1, 4, length)
            fours[:, 2:] = fours[:, :2]
        if self.how == "tiled":
            samples[half : 2 * half] = samples[:half]
        if self.how == "mirrored":
            samples[::-1][:half] = samples[:half]
        if self.how == "even":  # as many of each sequence as expected, in any order
            law = joint_law(toy, self.temperature, length)
            edges = (np.arange(count) + np.random.default_rng(seed).random()) / count
            cells = np.random.default_rng(seed).permutation(np.searchsorted(np.cumsum(law)[:-1], edges, side="right"))
            samples = np.stack(np.unravel_index(cells, (toy.vocab,) * length), axis=1)
        if self.how == "impossible":
            samples[:4] = toy.vocab - 1
        if self.how == "talks":
            print("hello")
        return samples


def _temperature(settings: dict[str, Any]) -> float:
    return float(Fraction(settings.get("temperature", 1)))


def right(settings: dict[str, Any]) -> Direct:
    return Direct(_temperature(settings), float(settings.get("dial", 0)))


def with_rounds(settings: dict[str, Any]) -> WithRounds:
    return WithRounds(_temperature(settings), 0.0, int(settings.get("tau", 2)))


def wrong(settings: dict[str, Any]) -> Wrong:
    return Wrong(_temperature(settings), 0.0, str(settings["how"]))


NO_FACTORY = 3
