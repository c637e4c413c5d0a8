"""`rheo tune`: the tree that yields most tokens a second on the machine at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.cli.models import DEFAULT_METHOD, METHOD, TEMPERATURE, Loaded, load, model_options, tree_config, tree_options
from rheo.config import TREE_KEYS
from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from rheo.config import Config
    from verify.benchmark.plan import Question


@click.command()
@model_options
@click.option(
    "--method",
    "methods",
    type=METHOD,
    multiple=True,
    help=f"Several times for more.{DEFAULT_METHOD}",
)
@click.option("--temperature", type=TEMPERATURE, default=1.0, show_default=True)
@click.option(
    "--suite",
    help="humaneval, mt_bench, or a folder with a question.jsonl.  [default: places in texts that the target makes up]",
)
@click.option("--limit", type=click.IntRange(1), default=8, show_default=True, help="Prompts.")
@click.option("--contexts", type=click.IntRange(1), default=4, show_default=True, help="Round starts of a prompt.")
@tree_options
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here, for --tuned.")
def tune(methods: tuple[str, ...], temperature: float, suite: str | None, output: Path | None, **options: Any) -> int:
    """Find the tree that yields most expected tokens a second, for each method.

    Times the forwards of target and drafter, computes what trees up to --budget, --depth and --beam are expected to
    yield at the same round starts, and picks the best. `rheo bench --tuned` and `rheo generate --tuned` take it up.
    """
    config = tree_config(temperature, options)
    if output is not None:
        require_writable(output)
    methods = tuple(dict.fromkeys(methods))
    _require_formulas(methods)
    names = {key: options[key] for key in ("target", "draft", "dtype", "device")}
    loaded = load(*names.values())
    from rheo.models.drafters import calibrated, default_method

    methods = methods or (default_method(config, loaded.drafter),)
    config = calibrated(config, loaded.drafter)
    from reports.bars import work_bar
    from reports.console_tune import tune_tables
    from rheo.models.causal import eos_tokens
    from rheo.models.smollm2 import ModelError
    from verify.benchmark.explore import Search
    from verify.benchmark.machine import machine, versions
    from verify.benchmark.texts import Models
    from verify.benchmark.tuning import sights, tuned

    search = Search(methods, config, options["contexts"])
    models = Models(loaded.model, loaded.drafter, eos_tokens(loaded.model))
    seen = []
    try:
        with work_bar(options["limit"] + 1) as moved:
            moved(0, "prompts")
            questions = _questions(loaded, suite, options["limit"], config)
            for done, (question, found) in enumerate(sights(models, search, questions), start=2):
                moved(done, f"prompt {question.identifier}")
                seen += found
        result = tuned(search, seen)
    except (ModelError, ValueError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error
    settings = {
        **names,
        "methods": list(methods),
        "temperature": temperature,
        "suite": suite,
        "limit": len(questions),
        "contexts": options["contexts"],
        "config": {key: options[key] for key in TREE_KEYS},
        "calibration": str(config.calibration),
    }
    head = {"settings": settings, "versions": versions(), "machine": machine(models.target.device)}
    record = {"schema": 1, "kind": "tune", **head, **result}
    tune_tables(record, on_stderr=output is not None)
    if output is not None:
        write_text(output, json.dumps(record, indent=1, allow_nan=False) + "\n")
    return 0


def _require_formulas(methods: tuple[str, ...]) -> None:
    """A UsageError naming the method whose trees have no expected tokens to compare."""
    from rheo.methods import METHODS
    from verify.benchmark.expected import REACH

    for name in methods:
        if METHODS[name].rule not in REACH:
            raise click.UsageError(f"--method {name}: there is no formula for its expected tokens")


def _questions(loaded: Loaded, suite: str | None, limit: int, config: Config) -> list[Question]:
    """Of a suite, or none of any suite's: random places in texts that the target makes up."""
    from verify.benchmark.plan import Question
    from verify.calibrating.starts import made_up, round_starts

    if suite is not None:
        from rheo.cli.model_bench import suite_questions

        return list(suite_questions(suite, limit, loaded)[1])
    starts = made_up(loaded.tokenizer, limit, 0)
    places = round_starts(loaded.model, loaded.tokenizer, starts, 1, float(config.temperature), 0)
    return [Question(str(number), tuple(place)) for number, place in enumerate(places)]
