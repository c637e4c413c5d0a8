"""What this project gives to the tests of others: its markers, and a fixture that gates a sampler.

Loaded by pytest through its entry point, in every project where this one is installed: so it imports nothing heavy
before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from concurrent.futures import Executor

MARKERS = {
    "exact": "proofs in rational arithmetic, and the torch sampler measured against them",
    "stat": "statistical tests with stated error rates",
    "model": "needs transformers; makes tiny random models",
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


@pytest.fixture(scope="session")
def lossless_gate() -> Callable[..., dict[str, Any]]:
    """A function that fails the test unless a sampler is found lossless; see `gate` for what it takes."""
    return gate


def gate(
    sampler: str | Callable[[dict[str, Any]], Any],
    *,
    config: dict[str, Any] | None = None,
    toys: Iterable[str] | None = None,
    tv: float = 0.02,
    alpha: float = 1e-9,
    beta: float = 1e-6,
    seed: int = 0,
    seconds: float | None = None,
    jobs: int = 1,
) -> dict[str, Any]:
    """Sample on the battery and fail the running test unless the verdict is lossless; its record is returned.

    sampler: a factory, run in this process, or its spec `package.module:factory`, run in `jobs` processes.
    toys: names of the battery's, by default all. seconds: after which the verdict is inconclusive; None: never.
    """
    __tracebackhide__ = True
    from verify.battery import BATTERY
    from verify.contract import SamplerError
    from verify.findings import record
    from verify.plan import Claims, planned, with_settings
    from verify.run import begun, run

    names = {trial.name for trial in BATTERY}
    wanted = names if toys is None else set(toys)
    if not wanted:
        raise ValueError("no toys to sample on")
    unknown = wanted - names
    if unknown:
        raise ValueError(f"no toy {sorted(unknown)[0]}; there are {', '.join(trial.name for trial in BATTERY)}")
    chosen = [trial for trial in BATTERY if trial.name in wanted]
    plan = planned(sampler, with_settings(chosen, config or {}), Claims(tv, alpha, beta), seed)
    progress = begun(plan)
    name = sampler if isinstance(sampler, str) else getattr(sampler, "__name__", "sampler")
    try:
        with _executor(sampler, jobs) as executor:
            for latest in run(plan, executor, jobs, seconds):
                progress = latest
    except SamplerError as error:
        pytest.fail(str(error), pytrace=False)
    found = record(plan, progress, name)
    if found["verdict"] != "lossless":
        pytest.fail("\n".join([f"{name}: {found['verdict']}: {found['sentence']}", *found["findings"]]), pytrace=False)
    return found


def _executor(sampler: object, jobs: int) -> AbstractContextManager[Executor]:
    from verify.executors import Here, processes

    return processes(jobs) if isinstance(sampler, str) else Here()
