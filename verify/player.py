"""The torch sampler on one toy, with rounds played in bulk under given uniforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from rheo.decoding import Sampler, play_round
from rheo.methods import Method
from rheo.uniforms import split_uniforms
from verify.cases import Case
from verify.subjects import PlayRound
from verify.torch_toys import Automaton, ToyPair, automaton
from verify.toys import Tokens

_ROWS = 16_384  # rounds played at once


@dataclass(frozen=True)
class Query:
    """The uniforms of a round by position; `others` is the value of all that are not given."""

    probes: dict[int, float]
    coins: dict[int, float]
    draws: dict[int, float]
    others: float = 0.5


@dataclass(frozen=True)
class Played:
    """Rounds played: drafted tokens (-1 where a tree is smaller), parents and slots [n, R]; emitted [n, D + 1] and
    how many of them were drafted, accepted [n]. All int64."""

    drafted: NDArray[np.int64]
    parents: NDArray[np.int64]
    slots: NDArray[np.int64]
    emitted: NDArray[np.int64]
    accepted: NDArray[np.int64]

    def tree(self, row: int) -> tuple[tuple[int, int, int], ...]:
        """(token, row of the parent, slot) of every kept node of one round."""
        columns = (self.drafted[row].tolist(), self.parents[row].tolist(), self.slots[row].tolist())
        return tuple(node for node in zip(*columns, strict=True) if node[0] >= 0)

    def start(self, row: int, count: int) -> tuple[Tokens, bool]:
        """The first emitted tokens of one round, and whether the last of them was drafted."""
        return tuple(self.emitted[row, :count].tolist()), bool(self.accepted[row] >= count)


@dataclass(frozen=True)
class Player:
    """A method of the torch sampler on a case, in one dtype; `play_round` may be broken on purpose."""

    case: Case
    method: Method
    dtype: torch.dtype
    play_round: PlayRound = play_round

    @cached_property
    def table(self) -> Automaton:
        return automaton(self.case.toy, self.dtype)

    def column(self, kind: str, position: int) -> int:
        """Where a uniform stands in a row of `numbers`."""
        config = self.case.config
        if kind == "probes":
            return config.column(position)
        return {"coins": config.expansions, "draws": config.expansions + config.depth}[kind] + position

    def numbers(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """All uniforms of these rounds, a row each."""
        config = self.case.config
        numbers = np.empty((len(queries), config.decisions))
        for row, query in zip(numbers, queries, strict=True):
            row.fill(query.others)
            for kind in ("probes", "coins", "draws"):
                for position, value in getattr(query, kind).items():
                    row[self.column(kind, position)] = value
        return numbers

    def play(self, numbers: NDArray[np.float64]) -> Played:
        """One round from the empty prefix for every row of uniforms."""
        parts = [self._play(numbers[i : i + _ROWS]) for i in range(0, len(numbers), _ROWS)]
        return Played(*(np.concatenate([getattr(p, f) for p in parts]) for f in Played.__dataclass_fields__))

    def _play(self, numbers: NDArray[np.float64]) -> Played:
        pair = ToyPair(self.table, torch.zeros(len(numbers), dtype=torch.int64))
        uniforms = split_uniforms(self.case.config, torch.from_numpy(numbers))
        tree, path = self.play_round(Sampler(self.case.config, self.method), pair, uniforms)
        drafted = torch.where(tree.occupied, tree.tokens, -1)
        columns = (drafted, tree.parents, tree.slots, path.tokens, path.lengths - 1)
        return Played(*(column.numpy() for column in columns))
