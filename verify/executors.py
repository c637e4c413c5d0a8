"""Where shards are worked off: this process, processes of this machine, or a dask cluster."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from pebble import ProcessPool


class Here(Executor):
    """This process, at once: a submitted call is done when `submit` returns."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def processes(workers: int) -> Iterator[Executor]:
    """Fresh processes, which are stopped at the end whatever they are doing: a sampler may hang."""
    pool = ProcessPool(workers, initializer=_start, context=get_context("spawn"))
    try:
        wait([pool.schedule(_warm) for _ in range(workers)])
        yield _Processes(pool)
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


class _Processes(Executor):
    """A pool that can stop its processes, behind the interface of the others."""

    def __init__(self, pool: ProcessPool) -> None:
        self._pool = pool

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self._pool.schedule(fn, args=args, kwargs=kwargs)
        return future


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers of a dask.distributed scheduler; the extra `dask` brings it. OSError if nobody answers there."""
    from distributed import Client

    with Client(address, timeout=10, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        yield client.get_executor(pure=False, retries=2)


def _warm() -> None:
    """Load what every shard needs, so that it does not count as time that a sampler took."""
    import_module("verify.shards")


def _start() -> None:
    """Run in every process: what a sampler prints goes to standard error, and it ends when its parent has gone."""
    os.dup2(2, 1)
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything that would read it is loaded
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
