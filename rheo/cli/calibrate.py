"""`rheo calibrate`: what slots are worth to a target with a drafter, measured and fitted."""

from __future__ import annotations

import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.cli.models import TEMPERATURE, Loaded, load, model_options, shape_options, tree_config
from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from rheo.training.prompts import Start
    from verify.benchmark.texts import Models
    from verify.calibrating.run import Plan, Progress

_BETWEEN_SAVES = 20.0  # seconds
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@model_options
@click.option("--output", type=_FILE, required=True, help="The calibration: calibration.json in a head's folder.")
@click.option(
    "--temperature",
    "temperatures",
    type=TEMPERATURE,
    multiple=True,
    default=(1.0, 0.6, 0.3),
    show_default=True,
    help="May be given several times: each is fitted on its own texts.",
)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    help="Where texts begin: a folder with a question.jsonl; several times. Never what is measured on later.  "
    "[default: users' turns the target makes up, functions of Python's library]",
)
@click.option("--limit", type=click.IntRange(1), default=64, show_default=True, help="Texts, or questions of a suite.")
@click.option("--contexts", type=click.IntRange(1), default=8, show_default=True, help="Round starts of a text.")
@shape_options
@click.option("--unweighted", is_flag=True, help="Count all parents alike, not by the chance that they are reached.")
@click.option("--seen", type=_FILE, help="Keep here (.npz) what was seen, and go on from it if it exists.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True, help="Of all sampling.")
def calibrate(
    output: Path,
    temperatures: tuple[float, ...],
    suites: tuple[str, ...],
    limit: int,
    contexts: int,
    unweighted: bool,
    seen: Path | None,
    seed: int,
    **given: Any,
) -> int:
    """Fit what anchors, probes and fillers are worth, for the calibrated methods.

    The target samples texts; at random places of its answers a tree is drafted, and the target says how likely each
    slot of its parents was to be accepted. Monotone curves of q (a probe: of the tail's mass) follow, for every depth.
    """
    for path in (output, seen):
        if path is not None:
            require_writable(path)
    if seen is not None and seen.resolve() == output.resolve():
        raise click.UsageError(f"--output and --seen are the same file {output}")
    config = tree_config(1.0, {**given, "calibration": None})
    from rheo.models.causal import eos_tokens
    from verify.benchmark.texts import Models
    from verify.calibrating import record
    from verify.calibrating.curves import fitted
    from verify.calibrating.run import Plan

    names = {key: given[key] for key in ("target", "draft", "dtype")}
    loaded = load(names["target"], names["draft"], names["dtype"], given["device"])
    starts = tuple(_starts(loaded, suites, limit, seed))
    plan = Plan(tuple(dict.fromkeys(temperatures)), config, starts, contexts, seed)
    asked = record.settings(plan, {**names, "suites": list(suites)})
    models = Models(loaded.model, loaded.drafter, eos_tokens(loaded.model))
    began = time.monotonic()
    progress, complete = _observed(models, loaded, plan, asked, seen)
    if not complete:
        raise KeyboardInterrupt
    try:
        fits = {heat: fitted(each.observed, weighted=not unweighted) for heat, each in progress.items()}
        if len(fits) < len(plan.temperatures):
            raise ValueError("there is no context to learn from")
    except ValueError as error:
        raise click.ClickException(f"{error}: give more --limit, or more --contexts") from None
    made = {
        **asked,
        "weights": "none" if unweighted else "reach",
        "contexts": {f"{heat:g}": each.contexts for heat, each in progress.items()},
        "seconds": round(time.monotonic() - began, 1),
        "versions": {name: metadata.version(name) for name in ("rheosampling", "torch", "transformers")},
    }
    write_text(output, record.dumps(record.document(fits, made)))
    for heat, each in sorted(progress.items()):
        depths = ", ".join(f"{name} {len(getattr(fits[heat], name))}" for name in ("anchor", "probe", "filler"))
        slots = len(each.observed.x)
        click.echo(f"T = {heat:g}: {each.contexts} contexts, {slots} slots; curves: {depths}", err=True)
    return 0


def _starts(loaded: Loaded, suites: tuple[str, ...], limit: int, seed: int) -> list[Start]:
    """Where texts begin; a click error for a suite that cannot be read."""
    from rheo.cli.model_bench import suite_questions
    from rheo.training.prompts import Start
    from verify.calibrating.starts import made_up

    if not suites:
        return made_up(loaded.tokenizer, limit, seed)
    questions = [question for suite in suites for question in suite_questions(suite, limit, loaded)[1]]
    return [Start(list(question.tokens), asked=True) for question in questions]


def _observed(
    models: Models, loaded: Loaded, plan: Plan, asked: dict[str, Any], path: Path | None
) -> tuple[Progress, bool]:
    """What the rounds showed, and whether all were played; an interrupt keeps what the file of --seen can hold."""
    from reports.bars import work_bar
    from rheo.models.smollm2 import ModelError
    from verify.calibrating import record
    from verify.calibrating.run import run

    begun: Progress = {}
    progress = begun
    complete, saved = True, time.monotonic()
    try:
        if path is not None and path.exists():
            progress = begun = record.load(path, asked)
        with work_bar(plan.contexts) as moved:
            moved(_contexts(begun), "sampling texts")
            for progress in run(models, loaded.tokenizer, plan, begun):
                moved(_contexts(progress), f"T = {list(progress)[-1]:g}")
                if path is not None and time.monotonic() - saved > _BETWEEN_SAVES:
                    record.save(path, asked, progress)
                    saved = time.monotonic()
    except (record.SeenError, ModelError, ValueError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None
    except KeyboardInterrupt:
        complete = False
    if path is not None:
        record.save(path, asked, progress)
    return {heat: progress[heat] for heat in plan.temperatures if heat in progress}, complete


def _contexts(progress: Progress) -> int:
    return sum(each.contexts for each in progress.values())
