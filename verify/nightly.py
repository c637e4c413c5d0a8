"""A sampler night after night: fresh seeds for ever, one e-process, one false-alarm rate for a lifetime.

The lifetime is that of an audit. It goes by shards of equally many tokens, each of one trial of a battery in turn. A
shard's number follows from the tokens counted before it, so a lifetime can be stopped anywhere and no seed is repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from itertools import count as numbers_from
from time import monotonic

import numpy as np

from verify.battery import Trial
from verify.contract import SamplerError
from verify.lifetime import Lifetime, count
from verify.orders import ORDERS, mass_before
from verify.run import result_of
from verify.shards import Shard, sample, token_laws
from verify.trace import Chunk

TOKENS = 15_360  # of a shard; whatever the length of its sequences, they fill it
ORDER = "p/q"


def nights(
    lifetime: Lifetime,
    sampler: str,
    trials: Sequence[Trial],
    executor: Executor,
    workers: int,
    limit: float,
    patience: float = 60.0,
) -> Iterator[Lifetime]:
    """The lifetime after every shard, for `limit` seconds or until it rejects.

    SamplerError for a sampler that breaks its promises, and ValueError for a trial whose sequences do not fill a shard.
    """
    for trial in trials:
        if TOKENS % trial.length:
            raise ValueError(f"{trial.name}: sequences of {trial.length} tokens do not fill a shard of {TOKENS}")
    began = monotonic()
    numbers = numbers_from(lifetime.tokens // TOKENS)
    running: deque[tuple[Shard, Future[Chunk]]] = deque()
    while not (lifetime.impossible or lifetime.eprocess.rejects(lifetime.plan.alpha_each)):
        while len(running) < workers:
            number = next(numbers)
            trial = trials[number % len(trials)]
            shard = Shard(sampler, trial, 0, number, TOKENS // trial.length, lifetime.plan.seed)
            running.append((shard, executor.submit(night, shard)))
        left = began + limit - monotonic()
        shard, future = running.popleft()
        try:
            chunk = result_of(future, shard, timeout=max(0.0, min(left, patience)))
        except TimeoutError:
            if left > patience:
                raise SamplerError(f"{sampler}: hangs: no {shard.count} sequences in {patience:.0f} s") from None
            return
        lifetime = count(lifetime, chunk, shard.trial.name)
        yield lifetime


def night(shard: Shard) -> Chunk:
    """The tokens of a shard as the rows of a trace, in the order of p/q."""
    drawn = sample(shard)
    p, q, tokens = token_laws(shard.trial, drawn.samples)
    columns = {
        "p_token": np.take_along_axis(p, tokens[:, None], axis=1)[:, 0],
        "p_before": mass_before(ORDERS[ORDER](p, q), p, tokens),
    }
    return Chunk(columns, np.arange(len(tokens)), "row", 1.0)
