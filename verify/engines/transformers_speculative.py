"""transformers' acceptance step alone: `_speculative_sampling`, which assisted generation calls once a round.

What is around it, drafting included, is as plain as can be, so that a fault found here is that function's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verify.engines.toy_models import depth_of, logit_rows, seeded, temperature_of
from verify.joint import Toy
from verify.subjects import Samples
from verify.toys import Tokens

from transformers.generation import utils as generation  # isort: skip  # after toy_models, which says if it is missing


@dataclass(frozen=True)
class SpeculativeSampling:
    """Rounds of a chain of `depth` drafts; sequence by sequence, since the function takes one at a time."""

    depth: int
    temperature: float

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Samples:
        target, draft = logit_rows(toy.p, self.temperature), logit_rows(toy.q, self.temperature)

        @cache
        def drafts(prefix: Tokens) -> Iterator[int]:
            """Draws from q after a prefix, without end; by the hundred, since a call costs more than what it draws."""
            while True:
                yield from torch.multinomial(draft(prefix).softmax(-1), 100, replacement=True).tolist()

        @lru_cache(maxsize=1 << 16)
        def arguments(start: int, path: Tokens) -> tuple[Tensor, Tensor, int, Tensor]:
            """Candidate ids [1, depth], their logits [1, depth, vocab], depth, target logits [1, depth + 1, vocab]."""
            prefixes = [path[:end] for end in range(start, len(path) + 1)]
            q, p = torch.stack([draft(x) for x in prefixes[:-1]]), torch.stack([target(x) for x in prefixes])
            return torch.tensor([path[start:]]), q[None], self.depth, p[None]

        def play_round(tokens: Tokens) -> Tokens:
            path = tokens
            for _ in range(self.depth):
                path += (next(drafts(path)),)
            # Looked up at every call: tests put other functions in its place.
            valid, _ = generation._speculative_sampling(*arguments(len(tokens), path))
            return tokens + tuple(valid[0].tolist())

        result = np.empty((count, length), dtype=np.int64)
        with seeded(seed):
            for row in result:
                tokens: Tokens = ()
                while len(tokens) < length:
                    tokens = play_round(tokens)
                row[:] = tokens[:length]
        return result


def speculative_sampling(settings: dict[str, Any]) -> SpeculativeSampling:
    """The subject; settings: "depth" (1) and "temperature" (1)."""
    return SpeculativeSampling(depth_of(settings), temperature_of(settings))
