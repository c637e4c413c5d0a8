"""The end of the main job: the torch sampler as a black box on the battery, and every mutant through every tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, as_completed
from typing import Any

from reference.methods import PAPER
from verify import findings
from verify.battery import BATTERY
from verify.gate import Status
from verify.mutants import MUTANTS
from verify.plan import Claims, planned, with_settings
from verify.run import begun, run

# A deviation of one percent, so that all methods are judged within a minute; `rheo verify --sampler` looks closer.
CLAIMS = Claims(tv=1e-2)
TORCH = "verify.subjects:torch_sampler"
STEPS = len(PAPER) + len(MUTANTS)

_STATUS = {"lossless": Status.LOSSLESS, "lossy": Status.LOSSY, "inconclusive": Status.INCONCLUSIVE}


def subjects(
    executor: Executor, workers: int, methods: Iterable[str] = PAPER, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """The record of each of these methods of the torch sampler, as they are done."""
    for method in methods:
        plan = planned(TORCH, with_settings(BATTERY, {"method": method}), CLAIMS, seed)
        progress = begun(plan)
        for latest in run(plan, executor, workers, start=progress):
            progress = latest
        yield findings.record(plan, progress, f"torch {method}")


def mutants(executor: Executor) -> Iterator[dict[str, Any]]:
    """The record of each mutant, as they are done."""
    for future in as_completed([executor.submit(_mutant, name) for name in MUTANTS]):
        yield future.result()


def _mutant(name: str) -> dict[str, Any]:
    """Run where the executor runs it. The module is loaded there alone: it makes the battery's cases."""
    import torch

    from verify.mutants_table import record

    torch.set_num_threads(1)
    return record(MUTANTS[name])


def status(subjects: list[dict[str, Any]], mutants: list[dict[str, Any]]) -> Status:
    """The largest of the subjects' verdicts, and of a mutant that no tier caught."""
    missed = [Status.CONTROL_PASSED for mutant in mutants if mutant["cheapest"] is None]
    return max([Status.LOSSLESS, *(_STATUS[subject["verdict"]] for subject in subjects), *missed])
