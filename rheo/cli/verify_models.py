"""`rheo verify --target --draft`: the sampler on a real model, judged by a forward that knows nothing of its caches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reference.methods import PAPER
from rheo.cli.models import METHOD, TEMPERATURE, Loaded, load, model_options, tree_config, tree_options
from rheo.config import TREE_KEYS
from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from rheo.config import Config
    from verify.models.plan import Plan
    from verify.models.run import Progress
    from verify.models.texts import Models

# The options that are for nothing else, by their parameters' names.
OPTIONS = (
    "target", "draft", "dtype", "device", *TREE_KEYS, "calibration", "methods", "suite", "prompts", "tokens",
    "temperature", "max_new_tokens", "batch",
)  # fmt: skip
SHARED = ("alpha", "beta", "seed", "checkpoint")  # with --sampler
_STATUS = {"lossless": 0, "lossy": 1, "inconclusive": 3, "control_passed": 4}
_BETWEEN_SAVES = 1.0  # seconds


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    target: str
    draft: str
    dtype: str
    device: str
    methods: tuple[str, ...]
    suite: str | None
    prompts: tuple[str, ...]
    tokens: int
    max_new_tokens: int
    batch: int
    config: Config
    alpha: float
    beta: float
    seed: int
    checkpoint: Path | None
    json_path: Path | None

    @property
    def names(self) -> dict[str, str]:
        """Of the models, as JSON."""
        return {"target": self.target, "draft": self.draft, "dtype": self.dtype}


def _methods(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Methods by name, with commas between them."""
    return tuple(dict.fromkeys(METHOD.convert(name.strip(), param, ctx) for name in value.split(",")))


def models_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of OPTIONS."""
    options = (
        click.option("--methods", callback=_methods, default=",".join(PAPER), show_default=True, help="With commas."),
        click.option("--suite", help="Prompts: humaneval, mt_bench, or a folder with a question.jsonl."),
        click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="A prompt; may be repeated."),
        click.option(
            "--tokens",
            type=click.IntRange(1),
            default=5000,
            show_default=True,
            help="Emitted tokens of each method that are tested.",
        ),
        click.option("--temperature", type=TEMPERATURE, default=1.0, show_default=True, help="Above 0."),
        click.option(
            "--max-new-tokens", type=click.IntRange(1), default=64, show_default=True, help="Of a request, at most."
        ),
        click.option("--batch", type=click.IntRange(1), default=16, show_default=True, help="Requests at a time."),
    )
    for option in reversed(options):
        command = option(command)
    return model_options(tree_options(command))


def request_from(asked: dict[str, Any]) -> Request:
    """The request; a click.UsageError where options contradict each other."""
    shape = {key: asked.pop(key) for key in (*TREE_KEYS, "calibration")}
    temperature = asked.pop("temperature")
    if temperature == 0:
        raise click.UsageError("--temperature 0 leaves nothing to test; greedy decoding is compared in every run")
    if asked["suite"] is not None and asked["prompts"]:
        raise click.UsageError("give either --suite or --prompt")
    return Request(config=tree_config(temperature, shape), **asked)


def verify_models(request: Request) -> int:
    """Carry a request out; the exit status. What is bad about it or its models is a click error.

    An interrupt leaves a valid result, marked incomplete, and the checkpoint.
    """
    for path in (request.json_path, request.checkpoint):
        if path is not None:
            require_writable(path)
    from verify.models.record import record as record_of
    from verify.models.texts import judged

    started = time.monotonic()
    loaded = load(request.target, request.draft, request.dtype, request.device)
    plan = _plan(request, loaded)
    models = judged(loaded.model, loaded.drafter)
    progress, complete = _carried_out(request, plan, models)
    record = {
        "schema": 2,
        "kind": "models",
        **request.names,
        **record_of(plan, progress, exact=request.dtype == "float32"),
        "complete": complete,
        "seconds": round(time.monotonic() - started, 1),
    }
    if request.json_path is not None:
        write_text(request.json_path, json.dumps(record, indent=1) + "\n")
    from reports.console_losslessness import losslessness_table

    losslessness_table(record, on_stderr=request.json_path is not None)
    if not complete:
        raise KeyboardInterrupt
    return _STATUS[str(record["verdict"])]


def _plan(request: Request, loaded: Loaded) -> Plan:
    from rheo.models.causal import eos_tokens
    from rheo.models.drafters import calibrated
    from rheo.models.generation import Limits
    from rheo.models.prompts import PromptError, chat_ids, load_suite
    from rheo.models.smollm2 import ModelError
    from verify.models.plan import DEFAULT_PROMPTS, Plan

    try:
        texts = request.prompts or DEFAULT_PROMPTS
        if request.suite is not None:
            texts = tuple(prompt.turns[0] for prompt in load_suite(request.suite))
    except (PromptError, ModelError) as error:
        raise click.ClickException(str(error)) from None
    return Plan(
        calibrated(request.config, loaded.drafter),
        request.methods,
        tuple(tuple(chat_ids(loaded.tokenizer, text)) for text in texts),
        Limits(request.max_new_tokens, eos=eos_tokens(loaded.model)),
        request.tokens,
        request.batch,
        request.seed,
        request.alpha,
        request.beta,
    )


def _carried_out(request: Request, plan: Plan, models: Models) -> tuple[Progress, bool]:
    """The run's progress at its end, and whether it came there without an interrupt."""
    from reports.bars import work_bar
    from rheo.models.smollm2 import ModelError
    from verify.checkpoint import CheckpointError
    from verify.models import state
    from verify.models.run import Progress, run

    latest = begun = Progress()
    complete, saved = True, time.monotonic()
    try:
        if request.checkpoint is not None and request.checkpoint.exists():
            latest = begun = state.load(request.checkpoint, plan, request.names)
        with work_bar(len(plan.methods) * plan.tokens + 2 * plan.pilot, latest.tokens) as moved:
            drawn = latest.tokens

            def on_tokens(part: str, count: int) -> None:
                nonlocal drawn
                drawn += count
                moved(drawn, part)

            for latest in run(plan, models, begun, on_tokens):
                drawn = latest.tokens
                if request.checkpoint is not None and time.monotonic() - saved > _BETWEEN_SAVES:
                    state.save(request.checkpoint, plan, request.names, latest)
                    saved = time.monotonic()
    except (CheckpointError, ModelError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        complete = False
    if request.checkpoint is not None:
        state.save(request.checkpoint, plan, request.names, latest)
    return latest, complete
