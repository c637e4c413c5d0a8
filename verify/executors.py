"""Where shards are worked off: this process, processes of this machine, or a dask cluster."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any


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
    """Fresh processes, which are killed at the end whatever they are doing: a sampler may hang."""
    # What a worker inherits while it starts: one thread each, and an interrupt is the parent's business.
    others = set(multiprocessing.active_children())
    threads = os.environ.get("OMP_NUM_THREADS")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if _in_main_thread() else None
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start)
        started = [pool.submit(_warm) for _ in range(workers)]  # each starts a process
    finally:
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads
        if before is not None:
            signal.signal(signal.SIGINT, before)
    try:
        wait(started)
        yield pool
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers of a dask.distributed scheduler; the extra `dask` brings it. OSError if nobody answers there."""
    from distributed import Client

    with Client(address, timeout=10, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        yield client.get_executor(pure=False, retries=2)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _warm() -> None:
    """Load what every shard needs, so that it does not count as time that a sampler took."""
    import_module("verify.shards")


def _start() -> None:
    """Run in every worker: what a sampler prints goes to standard error, and it ends when its parent has gone."""
    os.dup2(2, 1)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
