"""Samplers under test. A harness sees `sample(toy, length, count, seed)` and nothing of what is behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reference import decoding as reference_decoding
from reference.choose import sampling
from reference.methods import METHODS as REFERENCE
from rheo.config import CONFIG_KEYS, Config
from rheo.decoding import Sampler, play_round
from rheo.methods import METHODS
from rheo.tree import Frontier, Tree
from rheo.uniforms import draw_uniforms
from verify.joint import Toy
from verify.toys import Tokens

Samples = NDArray[np.int64]


class Subject(Protocol):
    """A sampler under test: `count` independent sequences of `length` tokens from the empty prefix, [count, length]."""

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples: ...


Factory = Callable[[dict[str, Any]], Subject]


def config_of(settings: dict[str, Any]) -> Config:
    """A Config from a subject's settings; keys that are not a tree's are left to the subject."""
    known = {key: settings[key] for key in CONFIG_KEYS if key in settings}
    if "temperature" in known:
        known["temperature"] = Fraction(known["temperature"])
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


@dataclass(frozen=True)
class LookupPair:
    """A toy's logits at the contexts of N requests, each distinct prefix looked up once."""

    target_rows: Lookup
    draft_rows: Lookup
    vocab: int
    contexts: Tensor  # int64 [N, t], all of one length

    def draft(self, frontier: Frontier) -> Tensor:
        return self._logits(self.draft_rows, frontier.paths)

    def target(self, tree: Tree) -> Tensor:
        n, nodes = tree.tokens.shape
        root = torch.zeros(n, 1, dtype=torch.int64)
        parents, tokens = torch.cat([root, tree.parents], 1), torch.cat([root - 1, tree.tokens], 1)
        row = torch.arange(nodes + 1).expand(n, -1)
        steps = []
        for _ in range(int(tree.depths.max())):  # from each node up to the root, where -1 stands for no token
            steps.append(tokens.gather(1, row))
            row = parents.gather(1, row)
        return self._logits(self.target_rows, torch.stack(steps[::-1], -1))

    def _logits(self, rows: Lookup, steps: Tensor) -> Tensor:
        """Logits [N, k, V] after the contexts and steps int64 [N, k, d], in which -1 is skipped."""
        base = self.vocab + 1
        if base ** (self.contexts.shape[1] + steps.shape[-1]) >= 1 << 63:
            raise ValueError("prefixes are too long to be numbered")
        code = torch.zeros(len(self.contexts), 1, dtype=torch.int64)
        for token in self.contexts.unbind(-1):
            code = code * base + token.unsqueeze(-1) + 1
        code = code.expand(-1, steps.shape[1])
        for token in steps.unbind(-1):
            code = torch.where(token < 0, code, code * base + token + 1)
        distinct, inverse = torch.unique(code, return_inverse=True)
        table = np.stack([rows(_decoded(number, base)) for number in distinct.tolist()])
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(table))[inverse]


def _decoded(number: int, base: int) -> Tokens:
    """The tokens that were numbered in digits 1..base - 1."""
    tokens: list[int] = []
    while number:
        number, digit = divmod(number, base)
        tokens.append(digit - 1)
    return tuple(reversed(tokens))


@dataclass(frozen=True)
class TorchSubject:
    """The torch sampler, in batches; every sequence is a request with a seed of its own."""

    config: Config
    method: str
    batch: int = 8_192

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        rows = (Lookup(toy.p), Lookup(toy.q), toy.vocab)
        seeds = np.random.SeedSequence(seed).generate_state(count, np.uint64).astype(np.uint64)
        parts = [self._batch(rows, length, seeds[i : i + self.batch]) for i in range(0, count, self.batch)]
        return np.concatenate(parts) if parts else np.zeros((0, length), dtype=np.int64)

    def _batch(self, rows: tuple[Lookup, Lookup, int], length: int, seeds: NDArray[np.uint64]) -> Samples:
        """Rounds until every request is long enough; requests of one length are played together.

        A request is at a length once at most, so the length numbers its rounds.
        """
        sampler = Sampler(self.config, METHODS[self.method])
        step = self.config.depth + 1
        result = np.full((len(seeds), length + step), -1, dtype=np.int64)
        lengths = np.zeros(len(seeds), dtype=np.int64)
        for position in range(length):
            group = np.flatnonzero(lengths == position)
            if len(group):
                pair = LookupPair(*rows, torch.from_numpy(result[group, :position]))
                uniforms = draw_uniforms(self.config, [int(seed) for seed in seeds[group]], position)
                _, path = play_round(sampler, pair, uniforms)
                result[group, position : position + step] = path.tokens.numpy()
                lengths[group] += path.lengths.numpy()
        return result[:, :length]


def reference(settings: dict[str, Any]) -> Subject:
    """The reference as a subject: settings of a Config, and "method"."""
    return ReferenceSubject(config_of(settings), settings.get("method", "rheo"))


def torch_sampler(settings: dict[str, Any]) -> Subject:
    """The torch sampler as a subject: settings of a Config, and "method"."""
    return TorchSubject(config_of(settings), settings.get("method", "rheo"))
