"""Samplers under test. A harness sees `sample(toy, length, count, seed)` and nothing of what is behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from reference import decoding as reference_decoding
from reference.choose import sampling
from reference.methods import METHODS as REFERENCE
from rheo.calibration import from_json
from rheo.config import CONFIG_KEYS, Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.methods import METHODS, Method
from rheo.tree import Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms
from verify.joint import Toy
from verify.prefix_table import PrefixPair, PrefixTable, prefix_table
from verify.toys import Tokens

Samples = NDArray[np.int64]


class Subject(Protocol):
    """A sampler under test: `count` independent sequences of `length` tokens from the empty prefix, [count, length].

    It may also have `rounds`, with the same arguments: (samples, emitted), emitted: int [count, r], the tokens that
    each round of a sequence emitted, those beyond `length` included, and 0 where there was no round.
    """

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples: ...


Factory = Callable[[dict[str, Any]], Subject]


def config_of(settings: dict[str, Any]) -> Config:
    """A Config from a subject's settings; keys that are not a tree's are left to the subject."""
    known = {key: settings[key] for key in CONFIG_KEYS if key in settings}
    if "temperature" in known:
        known["temperature"] = Fraction(known["temperature"])
    if "calibration" in settings:
        known["calibration"] = from_json(settings["calibration"])
    return Config(**known)


@dataclass(frozen=True)
class Lookup:
    """A toy's rows by prefix, asked for once each."""

    rows: Callable[[NDArray[np.integer]], NDArray[np.float64]]
    known: dict[Tokens, NDArray[np.float64]] = field(default_factory=dict)

    def __call__(self, prefix: Tokens) -> NDArray[np.float64]:
        if prefix not in self.known:
            self.known[prefix] = self.rows(np.array([prefix], dtype=np.int64).reshape(1, len(prefix)))[0]
        return self.known[prefix]


@dataclass(frozen=True)
class ReferenceSubject:
    """The NumPy reference, sequence by sequence."""

    config: Config
    method: str

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        config = Config(**{**vars(self.config), "temperature": float(self.config.temperature)})
        sampler = reference_decoding.Sampler(Lookup(toy.p), Lookup(toy.q), config, REFERENCE[self.method])
        choose = sampling(np.random.default_rng(seed))
        rows = []
        for _ in range(count):
            tokens: Tokens = ()
            while len(tokens) < length:
                tokens += reference_decoding.play_round(sampler, tokens, choose).tokens
            rows.append(tokens[:length])
        return np.array(rows, dtype=np.int64)


# Each may be replaced by one that is broken on purpose.
PlayRound = Callable[[Sampler, Pair, Uniforms], tuple[Tree, Path]]
DrawUniforms = Callable[[Config, Sequence[int], int], Uniforms]


@dataclass(frozen=True)
class TorchSubject:
    """The torch sampler, in batches; every sequence is a request with a seed of its own."""

    config: Config
    method: Method
    play: PlayRound = play_round
    draw: DrawUniforms = draw_uniforms
    batch: int = 16_384

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        return self.rounds(toy, length, count, seed)[0]

    def rounds(self, toy: Toy, length: int, count: int, seed: int) -> tuple[Samples, Samples]:
        table = prefix_table(toy, length - 1 + self.config.depth)
        seeds = np.random.SeedSequence(seed).generate_state(count, np.uint64).tolist()
        parts = [self._batch(table, length, seeds[i : i + self.batch]) for i in range(0, count, self.batch)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _batch(self, table: PrefixTable, length: int, seeds: list[int]) -> tuple[Samples, Samples]:
        """Rounds until every request is long enough; those of one length are played together, as one batch.

        A request is at a length once at most, so the length numbers its rounds.
        """
        sampler = Sampler(self.config, self.method)
        step = torch.arange(self.config.depth + 1)
        keys = np.array(seeds, dtype=np.uint64)
        tokens = torch.full((len(seeds), length + self.config.depth), -1)
        state, lengths = torch.zeros(len(seeds), dtype=torch.int64), torch.zeros(len(seeds), dtype=torch.int64)
        emitted = torch.zeros(len(seeds), length, dtype=torch.int64)
        for position in range(length):
            group = (lengths == position).nonzero().squeeze(-1)
            if len(group):
                pair = PrefixPair(table, state[group])
                _, path = self.play(sampler, pair, self.draw(self.config, keys[group.numpy()], position))
                tokens[group.unsqueeze(-1), position + step] = path.tokens
                state[group] = table.after(state[group], path.tokens)
                lengths[group] += path.lengths
                emitted[group, position] = path.lengths
        return tokens[:, :length].numpy(), emitted.numpy()


def reference(settings: dict[str, Any]) -> Subject:
    """The reference as a subject: settings of a Config, and "method"."""
    return ReferenceSubject(config_of(settings), settings.get("method", "rheo"))


def torch_sampler(settings: dict[str, Any]) -> Subject:
    """The torch sampler as a subject: settings of a Config, and "method"."""
    return TorchSubject(config_of(settings), METHODS[settings.get("method", "rheo")])
