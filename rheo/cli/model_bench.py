"""`rheo bench` without a subcommand: full models."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.cli.models import Loaded, load
from rheo.config import Config
from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from verify.benchmark.plan import Plan, Question
    from verify.benchmark.texts import Models

_BETWEEN_SAVES = 10.0  # seconds
_OPENINGS = 6  # texts at which shapes are measured


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. names: target, draft, dtype, device, limit, turns."""

    names: dict[str, Any]
    suites: tuple[str, ...]
    methods: tuple[str, ...]
    config: Config
    max_new_tokens: int
    seeds: int
    contexts: int
    ablations: tuple[str, ...]
    json_path: Path | None
    resume: bool
    reuse: tuple[Path, ...]
    tuned: dict[str, Config]


def bench_models(request: Request) -> int:
    """Run what has no result yet and show all figures; the exit status. An interrupt keeps what was finished."""
    from reports.bars import work_bar
    from reports.console_bench import model_tables
    from verify.benchmark.machine import machine, versions
    from verify.benchmark.plan import units
    from verify.benchmark.run import BenchError, document, earlier, run, settings

    if request.json_path is not None:
        require_writable(request.json_path)
    names = request.names
    plan, models = _loaded(request)
    about = machine(models.target.device)
    head = {"settings": settings(plan, names), "versions": versions(), "machine": about}
    records: dict[str, Any] = {}
    seconds = 0.0
    try:
        for path in request.reuse:
            records |= earlier(path, head)[0]
        if request.resume and request.json_path is not None and request.json_path.exists():
            own, seconds = earlier(request.json_path, head)
            records |= own
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    wanted = {unit.key: unit for unit in units(plan)}
    records = {key: record for key, record in records.items() if key in wanted}
    began = saved = time.monotonic()
    complete = True

    def written(complete: bool) -> dict[str, Any]:
        record = document(plan, head, records, round(seconds + time.monotonic() - began, 1), complete)
        if request.json_path is not None:
            write_text(request.json_path, json.dumps(record, indent=1, allow_nan=False) + "\n")
        return record

    try:
        with work_bar(sum(unit.weight for unit in wanted.values())) as moved:
            for unit, record in run(models, plan, records):
                records[unit.key] = record
                done = sum(wanted[key].weight for key in records)
                moved(done, f"{unit.suite} {unit.question.name} {unit.kind}")
                if time.monotonic() - saved > _BETWEEN_SAVES:
                    written(False)
                    saved = time.monotonic()
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        complete = False
    model_tables(written(complete), on_stderr=request.json_path is not None)
    if not complete:
        raise KeyboardInterrupt
    return 0


def _loaded(request: Request) -> tuple[Plan, Models]:
    """The models, and the plan with its questions as token ids."""
    from rheo.growths.static import Static
    from rheo.methods import METHODS
    from rheo.models.causal import eos_tokens
    from rheo.models.drafters import calibrated
    from verify.benchmark.plan import Plan
    from verify.benchmark.texts import Models
    from verify.calibrating.starts import made_up

    names = request.names
    loaded = load(names["target"], names["draft"], names["dtype"], names["device"])
    suites: dict[str, tuple[Question, ...]] = {}
    for given in request.suites:
        name, questions = suite_questions(given, names["limit"], loaded, every_turn=names["turns"] == "all")
        if name in suites:
            raise click.UsageError(f"--suite: two are called {name}")
        suites[name] = questions
    vocab = loaded.model.config.get_text_config().vocab_size
    plan = Plan(
        suites,
        request.methods,
        calibrated(request.config, loaded.drafter),
        request.max_new_tokens,
        request.seeds,
        request.contexts,
        request.ablations,
        vocab,
        {name: calibrated(config, loaded.drafter) for name, config in request.tuned.items()},
    )
    models = Models(loaded.model, loaded.drafter, eos_tokens(loaded.model), loaded.tokenizer)
    if any(isinstance(METHODS[name].growth, Static) for name in plan.drafted):
        plan = replace(plan, openings=tuple(made_up(loaded.tokenizer, _OPENINGS, 0)))
    return plan, models


def suite_questions(
    given: str, limit: int, loaded: Loaded, every_turn: bool = False
) -> tuple[str, tuple[Question, ...]]:
    """A suite's name, and `limit` of its questions spread evenly over it, since neighbours are of one kind.

    Of several turns the first is asked, or with `every_turn` one after the other.
    """
    from rheo.models.prompts import PromptError, chat_ids, load_suite
    from rheo.models.smollm2 import ModelError
    from verify.benchmark.plan import Question

    try:
        prompts = load_suite(given)
    except (PromptError, ModelError) as error:
        raise click.ClickException(str(error)) from None
    count = min(limit, len(prompts))
    chosen = [prompts[i * len(prompts) // count] for i in range(count)]
    if every_turn and not loaded.tokenizer.chat_template and any(len(prompt.turns) > 1 for prompt in chosen):
        raise click.UsageError(f"--turns all: {given} has questions of several turns, the tokenizer no chat template")
    questions = []
    for prompt in chosen:
        questions.append(Question(prompt.identifier, tuple(chat_ids(loaded.tokenizer, prompt.turns[0]))))
        later = range(2, len(prompt.turns) + 1) if every_turn else ()
        questions += [Question(prompt.identifier, (), turn, prompt.turns) for turn in later]
    return chosen[0].suite, tuple(questions)
