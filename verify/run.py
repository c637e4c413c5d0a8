"""A plan carried out: shard after shard, look after look, on any executor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from pebble import ProcessExpired

from verify.contract import SamplerError
from verify.plan import Plan, shards_of
from verify.shards import Counts, Shard, count
from verify.tally import Ruling, Tally, added, empty, look_at

T = TypeVar("T")

_SLOWER = 20  # times slower than before, and a sampler hangs


@dataclass(frozen=True)
class Progress:
    """Where a run is: looks taken, a tally a trial, all tests so far, seconds of work."""

    looks: int
    tallies: tuple[Tally, ...]
    tests: tuple[Ruling, ...]
    seconds: float = 0.0

    @property
    def sequences(self) -> int:
        return sum(tally.samples for tally in self.tallies)

    @property
    def rejected(self) -> bool:
        return any(test.rejected for test in self.tests)


def begun(plan: Plan) -> Progress:
    """Nothing done yet."""
    return Progress(0, tuple(empty(trial) for trial in plan.trials), ())


def run(
    plan: Plan,
    executor: Executor,
    workers: int,
    limit: float | None = None,
    patience: float = 60.0,
    start: Progress | None = None,
) -> Iterator[Progress]:
    """The progress after every shard and every look, to the last look, a rejection, or `limit` seconds.

    start: what an earlier run of the same plan came to. patience: seconds after which a sampler that has not given
    its first sequences hangs. SamplerError if the sampler breaks its promises.
    """
    progress, began = start or begun(plan), time.monotonic()
    before = progress.seconds
    while progress.looks < plan.looks and not progress.rejected:
        done = [tally.digests for tally in progress.tallies]
        todo = [shard for shard in shards_of(plan, progress.looks) if shard.number not in done[shard.place]]
        ended = 0
        for counts in _completed(todo, executor, workers, began + limit if limit else None, patience):
            ended += 1
            tallies = list(progress.tallies)
            tallies[counts.place] = added(tallies[counts.place], counts)
            progress = replace(progress, tallies=tuple(tallies), seconds=before + time.monotonic() - began)
            yield progress
        if ended < len(todo):
            return
        tests = look_at(plan, progress.tallies, progress.looks)
        progress = replace(progress, looks=progress.looks + 1, tests=(*progress.tests, *tests))
        yield progress


def _completed(
    todo: Sequence[Shard], executor: Executor, workers: int, deadline: float | None, patience: float
) -> Iterator[Counts]:
    """Counts as they come, `workers` shards at a time; they end early at the deadline."""
    queue, running = iter(todo), dict[Future[Counts], tuple[Shard, float]]()
    rate = 0.0  # sequences a second of one worker
    while True:
        while len(running) < workers and (shard := next(queue, None)) is not None:
            running[executor.submit(count, shard)] = (shard, time.monotonic())
        if not running:
            return
        done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        now = time.monotonic()
        for future in done:
            shard, started = running.pop(future)
            rate = shard.count / max(now - started, 1e-9)
            yield result_of(future, shard)
        if deadline is not None and now >= deadline:
            return
        for shard, started in running.values():
            allowed = max(patience, _SLOWER * shard.count / rate if rate else 0.0)
            if now - started > allowed:
                raise SamplerError(
                    f"{_name(shard)}: hangs: no {shard.count} sequences of {shard.trial.name} in {allowed:.0f} s"
                )


def result_of(future: Future[T], shard: Shard, timeout: float | None = None) -> T:
    """What a shard's call gave; TimeoutError after `timeout` seconds, SamplerError if its process died."""
    try:
        return future.result(timeout)
    except Exception as error:
        # dask has a class of its own for it, and need not be installed.
        if isinstance(error, ProcessExpired) or type(error).__name__ == "KilledWorker":
            raise SamplerError(f"{_name(shard)}: its process died while it sampled {shard.trial.name}") from None
        raise


def _name(shard: Shard) -> str:
    return shard.sampler if isinstance(shard.sampler, str) else "sampler"
