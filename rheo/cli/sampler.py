"""`rheo verify --sampler`: a sampler known by its protocol alone, its own or another engine's."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from verify.plan import Plan
    from verify.run import Progress

_BETWEEN_SAVES = 1.0  # seconds


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    sampler: str | None
    cases: tuple[str, ...]
    toys: tuple[str, ...]
    settings: dict[str, Any]
    tv: float
    alpha: float
    beta: float
    seed: int
    seconds: float
    patience: float
    jobs: int
    dask: str | None
    checkpoint: Path | None
    replay: Path | None
    json_path: Path | None
    failures: Path


def settings_from(text: str | None) -> dict[str, Any]:
    """The settings of --config: a JSON object, or a file that holds one. BadParameter for anything else."""
    if text is None:
        return {}
    try:
        given = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
        settings = json.loads(given)
    except OSError as error:
        raise click.BadParameter(f"--config: {text}: {error.strerror}") from None
    except ValueError as error:
        raise click.BadParameter(f"--config: broken JSON: {error}") from None
    if not isinstance(settings, dict):
        raise click.BadParameter(f"--config: must be a JSON object, got {type(settings).__name__}")
    return settings


def verify_sampler(request: Request) -> int:
    """Run a sampler on its trials; the exit status. What is bad about the request or the sampler is a click error.

    An interrupt leaves a valid result, marked incomplete, and the checkpoint.
    """
    for path in (request.json_path, request.checkpoint):
        if path is not None:
            require_writable(path)
    try:
        plan = _plan(request)
        progress, complete = _carried_out(request, plan)
        record = _record(request, plan, progress, complete)
    except KeyboardInterrupt:
        record = {"schema": 2, "kind": "sampler", "verdict": "inconclusive", "complete": False, "subjects": []}
    if request.json_path is not None:
        write_text(request.json_path, json.dumps(record, indent=1) + "\n")
    if not record["complete"]:
        raise KeyboardInterrupt
    from reports.console_sampler import sampler_table

    sampler_table(record, on_stderr=request.json_path is not None)
    return {"lossless": 0, "lossy": 1, "inconclusive": 3}[str(record["verdict"])]


def _carried_out(request: Request, plan: Plan) -> tuple[Progress, bool]:
    """The run's progress at its end, and whether it came there without an interrupt."""
    from reports.bars import work_bar
    from verify import checkpoint
    from verify.contract import SamplerError
    from verify.run import begun, run

    latest = begun(plan)
    if request.checkpoint is not None and request.checkpoint.exists():
        try:
            latest = checkpoint.load(request.checkpoint, plan)
        except checkpoint.CheckpointError as error:
            raise click.ClickException(str(error)) from None
    complete = True
    saved = time.monotonic()
    try:
        with _executor(request) as (executor, workers), work_bar(plan.sequences, latest.sequences) as moved:
            for progress in run(plan, executor, workers, request.seconds, request.patience, latest):
                latest = progress
                moved(latest.sequences, plan.trials[0].name if len(plan.trials) == 1 else f"look {latest.looks + 1}")
                if request.checkpoint is not None and time.monotonic() - saved > _BETWEEN_SAVES:
                    checkpoint.save(request.checkpoint, plan, latest)
                    saved = time.monotonic()
    except SamplerError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        complete = False
    if request.checkpoint is not None:
        checkpoint.save(request.checkpoint, plan, latest)
    return latest, complete


def _record(request: Request, plan: Plan, progress: Progress, complete: bool) -> dict[str, Any]:
    """The result as JSON; a lossy trial is saved so that it can be played again."""
    from verify import findings, replay

    subject = findings.record(plan, progress, str(plan.sampler))
    again = []
    worst = findings.worst_test(progress)
    if worst is not None:
        try:
            path = replay.save(plan, worst.trial, progress.looks, request.failures)
            command = f"rheo verify --replay {shlex.quote(str(path))}"
            again = [{"case": plan.trials[worst.trial].name, "status": "lossy", "command": command}]
        except OSError as error:  # the verdict matters more than its replay
            click.echo(f"rheo: --failures: {error.filename}: {error.strerror}", err=True)
    return {
        "schema": 2,
        "kind": "sampler",
        "verdict": subject["verdict"],
        "complete": complete,
        "seconds": subject["seconds"],
        "subjects": [subject],
        "replay": again,
    }


def _plan(request: Request) -> Plan:
    from verify import replay
    from verify.battery import BATTERY
    from verify.cases import CaseError
    from verify.plan import Claims, planned, with_settings

    try:
        if request.replay is not None:
            return replay.load(request.replay, request.sampler)
        assert request.sampler is not None
        named = {trial.name: trial for trial in BATTERY}
        unknown = [name for name in request.toys if name not in named]
        if unknown:
            raise click.BadParameter(f"--toy: no toy {unknown[0]}; there are {', '.join(named)}")
        chosen = [named[name] for name in dict.fromkeys(request.toys)]
        trials = [*chosen, *(_trial(case) for case in request.cases)] or list(BATTERY)
        claims = Claims(request.tv, request.alpha, request.beta)
        return planned(request.sampler, with_settings(trials, request.settings), claims, request.seed)
    except CaseError as error:
        raise click.ClickException(str(error)) from None
    except (ValueError, TypeError, ArithmeticError) as error:
        raise click.ClickException(f"verify: {error}") from None


def _trial(path: str) -> Any:
    """A case file's toy, with sequences as long as its cells allow."""
    from verify.battery import Trial
    from verify.cases import document, load
    from verify.plan import MOST_CELLS

    case = load(path)
    length = 1
    while case.toy.vocab ** (length + 1) <= MOST_CELLS and length < 2 * (case.config.depth + 1):
        length += 1
    return Trial(case.name, case.toy, length, document(case)["config"])


@contextmanager
def _executor(request: Request) -> Iterator[tuple[Executor, int]]:
    from verify.executors import cluster, processes

    pool: AbstractContextManager[Executor]
    if request.dask is None:
        workers = request.jobs or os.cpu_count() or 1
        pool = processes(workers)
    else:
        workers = request.jobs or 8
        try:
            pool = cluster(request.dask)
        except ImportError:
            raise click.ClickException("--dask needs the extra: pip install rheosampling[dask]") from None
    with pool as executor:
        yield executor, workers
