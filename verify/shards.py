"""Sampling in shards: small pieces of work whose counts add up, on whatever executor.

A shard's randomness comes from a seed sequence keyed by the run's seed, its trial and its number. So one process, many,
and a cluster give the same counts.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from reference.distributions import temper
from verify import pit
from verify.battery import Trial
from verify.contract import Drawn, draw, load, made
from verify.goodness import pairs_of
from verify.joint import cell_of
from verify.subjects import Factory, Subject

Tokens = NDArray[np.int64]

PIT_BINS = 20
LEAST_DIGESTED = 512  # sequences; fewer may be the same by chance


@dataclass(frozen=True)
class Shard:
    """`count` sequences of a trial. sampler: a spec, or a factory where no other process has to find it.

    place, number: of the trial in its plan, and of the shard among the trial's.
    """

    sampler: str | Factory
    trial: Trial
    place: int
    number: int
    count: int
    seed: int

    def seeds(self, purpose: int) -> np.random.SeedSequence:
        """Of the sampler (0) or of the test (1). The trial counts by its name: its place differs between plans."""
        return np.random.SeedSequence(self.seed, spawn_key=(purpose, crc32(self.trial.name.encode()), self.number))

    @property
    def sampler_seed(self) -> int:
        """32 bits, which every generator takes."""
        return int(self.seeds(0).generate_state(1)[0])


@dataclass(frozen=True)
class Pit:
    """Kolmogorov's test of the randomised PIT of one shard's tokens, and the PIT's histogram."""

    p_value: float
    statistic: float
    tokens: int
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """What a shard counted. place, number: its own. cells: int64 [k]. pairs: int64 [pairings, k, k].

    digest: of the first samples. tokens, rounds: emitted in all and in how many rounds, 0 where not offered.
    pit: by order; only of a trial's first shard, so that how many tokens are tested is fixed beforehand.
    """

    place: int
    number: int
    cells: NDArray[np.int64]
    pairs: NDArray[np.int64]
    digest: str
    tokens: int
    rounds: int
    pit: dict[str, Pit]


def sample(shard: Shard) -> Drawn:
    """Sample a shard. SamplerError if the sampler breaks its promises."""
    trial = shard.trial
    name = shard.sampler if isinstance(shard.sampler, str) else getattr(shard.sampler, "__name__", "sampler")
    subject = _subject(shard.sampler, json.dumps(trial.settings, sort_keys=True), name)
    # Both ways of sampling are under test: every second shard is drawn without its rounds.
    with_rounds = shard.number % 2 == 1
    return draw(subject, trial.toy, trial.length, shard.count, shard.sampler_seed, name, with_rounds)


def count(shard: Shard) -> Counts:
    """Sample a shard and count it. SamplerError if the sampler breaks its promises."""
    trial, drawn = shard.trial, sample(shard)
    cells, k = cell_of(drawn.samples, trial.toy.vocab), trial.cells
    return Counts(
        place=shard.place,
        number=shard.number,
        cells=np.bincount(cells, minlength=k),
        pairs=pairs_of(cells, k),
        digest=_digest(drawn.samples) if shard.count >= LEAST_DIGESTED else f"shard {shard.number}",
        tokens=0 if drawn.emitted is None else int(drawn.emitted.sum()),
        rounds=0 if drawn.emitted is None else int((drawn.emitted > 0).sum()),
        pit={} if shard.number else pits(shard, drawn),
    )


def _digest(samples: NDArray[np.int64]) -> str:
    """Of the first tokens of the first rows: all that shards of different sizes share where a seed is not used."""
    first = samples[:LEAST_DIGESTED]
    return hashlib.blake2b(np.ascontiguousarray(first[:, 0]).tobytes(), digest_size=16).hexdigest()


def pits(shard: Shard, drawn: Drawn) -> dict[str, Pit]:
    """The randomised PIT of every token, in every order that the emitted prefix alone decides."""
    generator = np.random.default_rng(shard.seeds(1))
    p, q, tokens = token_laws(shard.trial, drawn.samples)
    own = np.take_along_axis(p, tokens[:, None], axis=1)[:, 0]
    found = {}
    for name, order in pit.ORDERS.items():
        values = pit.pit_of(p, q, tokens, order, generator)
        evidence = pit.kolmogorov(values, own)
        histogram = np.histogram(values, PIT_BINS, (0, 1))[0]
        found[name] = Pit(evidence.p_value, evidence.statistic, len(values), tuple(histogram.tolist()))
    return found


def token_laws(trial: Trial, samples: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], Tokens]:
    """p, tempered, and q [n length, V] before every token of samples [n, length], and the tokens [n length]."""
    temperature = trial_temperature(trial.settings)
    rows = []
    for t in range(trial.length):
        prefixes, which = np.unique(samples[:, :t], axis=0, return_inverse=True)
        p = np.stack([temper(row, temperature) for row in trial.toy.p(prefixes)])
        rows.append((p[which.ravel()], trial.toy.q(prefixes)[which.ravel()], samples[:, t]))
    p, q, tokens = (np.concatenate(part) for part in zip(*rows, strict=True))
    return p, q, tokens


def trial_temperature(settings: dict[str, Any]) -> float:
    """The temperature in a sampler's settings, 1 if there is none. ValueError if it is no number."""
    temperature = float(Fraction(settings.get("temperature", 1)))
    if temperature < 0:
        raise ValueError(f"temperature must not be negative, got {temperature:g}")
    return temperature


@lru_cache(maxsize=64)
def _subject(sampler: str | Factory, settings: str, name: str) -> Subject:
    """The subject, made once a process. settings: JSON text, which can be looked up."""
    subject = made(load(sampler) if isinstance(sampler, str) else sampler, json.loads(settings), name)
    if "torch" in sys.modules:  # toys are small: more threads only wait for each other
        sys.modules["torch"].set_num_threads(1)
    return subject
