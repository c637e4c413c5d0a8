"""`rheo verify`: the main job."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reference.methods import METHODS, PAPER
from rheo.cli.options import SECONDS, SHARE
from rheo.cli.verify_models import OPTIONS as MODELS_OPTIONS
from rheo.cli.verify_models import SHARED, models_options, request_from, verify_models
from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from verify.gate import Check

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option("--json", "json_path", type=_FILE, help="Write all results here.")
@click.option(
    "--failures",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("rheo-failures"),
    show_default=True,
    help="Where every failed case is saved.",
)
@click.option("--method", type=click.Choice(list(METHODS)), help="Only this method, and no mutants.")
@click.option("--sampler", metavar="SPEC", help="Judge this sampler: package.module:factory or path/file.py:factory.")
@click.option("--config", metavar="JSON", help="Settings for its factory, as JSON or a file of it; over the toys' own.")
@click.option("--toy", "toys", multiple=True, metavar="NAME", help="Only this toy of the battery; may be repeated.")
@click.option("--tv", type=SHARE, default=5e-3, show_default=True, help="The total variation that must be found.")
@click.option("--alpha", type=SHARE, default=1e-9, show_default=True, help="How likely a false alarm may be.")
@click.option("--beta", type=SHARE, default=1e-6, show_default=True, help="How likely a miss may be.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all sampling.")
@click.option("--time", "seconds", type=SECONDS, default=60.0, show_default=True, help="Seconds to sample for.")
@click.option("--patience", type=SECONDS, default=60.0, show_default=True, help="Seconds until a sampler hangs.")
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes, or shards at a time on a cluster.")
@click.option("--dask", metavar="ADDRESS", help="A dask.distributed scheduler to sample on.")
@click.option("--checkpoint", type=_FILE, help="Keep the progress here, and go on from it if it exists.")
@click.option("--replay", type=_FILE, help="Play the lossy trial of this file again.")
@models_options
def verify(cases: tuple[str, ...], json_path: Path | None, failures: Path, method: str | None, **asked: Any) -> int:
    """Take the packaged cases, or each CASE file, through the exact and parity checks of both implementations.

    Where no CASE is named, the torch sampler is then judged as a black box on a battery of toys, and every mutant is
    taken through every tier. Ends in one verdict. Controls and mutants are wrong on purpose: if one is not found, the
    verdict is an error.

    With --sampler: sample sequences of it on a battery of toys, or on those of CASE files, and say whether they are
    the target's, with error rates stated beforehand.

    With --target and --draft: sample tokens on a real model and say whether they are the target's, by the
    probabilities of an independent forward.
    """
    models = {name: asked.pop(name) for name in MODELS_OPTIONS}
    if _given("target") or _given("draft"):
        _refuse(lambda name: name not in (*MODELS_OPTIONS, *SHARED, "json_path"), "is not for --target and --draft")
        _require_different(json_path, asked["checkpoint"])
        return verify_models(request_from({**models, **{name: asked[name] for name in SHARED}, "json_path": json_path}))
    _refuse(lambda name: name in MODELS_OPTIONS, "is for --target and --draft")
    if asked["sampler"] is None and asked["replay"] is None:
        _refuse(lambda name: name not in ("cases", "json_path", "failures", "method"), "is for --sampler")
        return _verify_cases(cases, method, json_path, failures)
    _refuse(lambda name: name == "method", "is for cases: a sampler is what --sampler says")
    if asked["replay"] is not None:
        _refuse(lambda name: name in ("cases", "config", "toys", "tv", "alpha", "beta", "seed"), "comes from --replay")
    _require_different(json_path, asked["checkpoint"])
    from rheo.cli.sampler import Request, settings_from, verify_sampler

    settings = settings_from(asked.pop("config"))
    return verify_sampler(Request(cases=cases, settings=settings, json_path=json_path, failures=failures, **asked))


def _require_different(json_path: Path | None, checkpoint: Path | None) -> None:
    if json_path is not None and checkpoint is not None and json_path.resolve() == checkpoint.resolve():
        raise click.UsageError(f"--json and --checkpoint are the same file {json_path}")


def _given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _refuse(affected: Callable[[str], bool], reason: str) -> None:
    """UsageError for an option or argument that would have no effect."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if _given(name) and affected(name) and context.params.get(name) != ():
            raise click.UsageError(f"{'CASE' if option.name == 'cases' else option.opts[0]} {reason}")


@dataclass
class _Results:
    """What the main job has found so far: an interrupt leaves what is there."""

    checks: list[Check] = field(default_factory=list)
    controls: list[Check] = field(default_factory=list)
    subjects: list[dict[str, Any]] = field(default_factory=list)
    mutants: list[dict[str, Any]] = field(default_factory=list)
    replays: list[tuple[Check, Path]] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    exhibits: dict[str, Any] = field(default_factory=dict)


def _replay(method: str, path: Path) -> str:
    """The command that repeats a failed check of a method on a saved case."""
    return " ".join(["rheo verify", *([] if method in PAPER else ["--method", method]), shlex.quote(str(path))])


def _verify_cases(cases: tuple[str, ...], method: str | None, json_path: Path | None, failures: Path) -> int:
    if json_path is not None:
        require_writable(json_path)
    from reports.console import verify_table
    from verify import gate, statistical_tier

    started, results, complete = time.monotonic(), _Results(), True
    try:
        _carry_out(cases, method, failures, results, with_exhibits=json_path is not None)
    except KeyboardInterrupt:
        complete = False
    status = max(
        gate.overall(results.checks, results.controls),
        statistical_tier.status(results.subjects, results.mutants),
        gate.Status.BAD_INPUT if results.bad else gate.Status.LOSSLESS,
    )
    if not complete and status is gate.Status.LOSSLESS:
        status = gate.Status.INCONCLUSIVE
    record = {
        "schema": 2,
        "kind": "verify",
        "verdict": gate.verdict(status, results.checks),
        "complete": complete,
        "seconds": round(time.monotonic() - started, 1),
        "checks": [check.record() for check in results.checks],
        "controls": [check.record() for check in results.controls],
        "subjects": results.subjects,
        "mutants": sorted(results.mutants, key=lambda mutant: str(mutant["mutant"])),
        "bad_input": results.bad,
        "replay": [{**check.record(), "command": _replay(check.method, path)} for check, path in results.replays],
        **results.exhibits,
    }
    if json_path is not None:
        write_text(json_path, json.dumps(record, indent=1) + "\n")
    if not complete:
        raise KeyboardInterrupt
    verify_table(record, on_stderr=json_path is not None)
    return int(status)


def _carry_out(
    cases: tuple[str, ...], method: str | None, failures: Path, results: _Results, with_exhibits: bool
) -> None:
    """The cases' checks and the controls; where no cases are named, the statistical tier and the mutants too."""
    import torch

    from reports.bars import count_bar
    from verify import gate, statistical_tier
    from verify.cases import CaseError, load
    from verify.controls import CONTROLS
    from verify.exhibits import exhibits

    torch.set_num_threads(1)  # toys are small: more threads only wait for each other
    loaded = []
    for path in cases or gate.packaged_cases():
        try:
            loaded.append(load(path))
        except CaseError as error:
            click.echo(f"rheo: {error}", err=True)
            results.bad.append(str(error))
    methods = None if method is None else (method,)
    steps = 0 if cases else statistical_tier.STEPS if methods is None else len(methods)
    with count_bar(len(loaded) + len(CONTROLS) + steps) as advance:
        for name in CONTROLS:
            advance(f"control {name}")
            results.controls.append(gate.check_control(name))
        for case in loaded:
            advance(Path(case.name).stem)
            for check in gate.check_case(case, methods):
                results.checks.append(check)
                if check.status is gate.Status.LOSSY:
                    try:
                        results.replays.append((check, gate.save_failure(case, check, failures)))
                    except OSError as error:  # the verdict matters more than its replay
                        click.echo(f"rheo: --failures: {error.filename}: {error.strerror}", err=True)
        if with_exhibits:
            results.exhibits.update(exhibits(loaded))
        if not cases:
            _statistical_tier(results, methods, advance)


def _statistical_tier(results: _Results, methods: tuple[str, ...] | None, advance: Callable[[str], None]) -> None:
    from verify import statistical_tier
    from verify.executors import processes

    workers = os.cpu_count() or 1
    with processes(workers) as executor:
        advance("torch on the battery")
        for subject in statistical_tier.subjects(executor, workers, methods or PAPER):
            results.subjects.append(subject)
            advance(subject["subject"])
        for mutant in statistical_tier.mutants(executor) if methods is None else ():
            results.mutants.append(mutant)
            advance(mutant["mutant"])
