"""`rheo record`: a real target and its draft, on one prompt, as a case file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress

from rheo.cli.models import quieten_transformers
from rheo.config import CONFIG_KEYS, Config, ConfigError
from rheo.files import write_text

if TYPE_CHECKING:
    from verify.record import OnContext

_MOST_CONTEXTS = 20_000


@click.command()
@click.option("--target", default="smollm2", show_default=True, help="smollm2, a model folder or a hub name.")
@click.option(
    "--skip-layers",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Last layers of the target that the draft leaves out. Overlap of the two, sum min(p, q), on "
    "answers of SmolLM2 (30 layers): 1 0.55, 2 0.50, 3 0.45, 4 0.39, 8 0.20.",
)
@click.option("--suite", help="humaneval, mt_bench, or a folder with a question.jsonl.")
@click.option("--question", help="Identifier in the suite, or position counted from 0.  [default: 0]")
@click.option("--prompt", help="The user's message, instead of --suite.")
@click.option(
    "--advance",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Tokens of the target's greedy answer that come before the recording.",
)
@click.option("--vocab", type=click.IntRange(1), default=5, show_default=True, help="Tokens kept at each context.")
@click.option(
    "--scale",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="About what each row sums to: every weight is rounded.",
)
@click.option("--anchors", type=int, default=1, show_default=True)
@click.option("--slots", type=int, default=3, show_default=True)
@click.option("--beam", type=int, default=2, show_default=True)
@click.option(
    "--depth", type=int, default=2, show_default=True, help="Drafted tokens; contexts grow as vocab ** depth."
)
@click.option("--budget", type=int, default=5, show_default=True)
@click.option("--support", type=int, help="Draft tokens kept by truncation.  [default: all]")
@click.option("--temperature", default="1", show_default=True, help='An integer or a fraction such as "1/2".')
@click.option("--output", type=click.Path(path_type=Path), required=True, help="The case file.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--verbose", is_flag=True, help="List the real tokens of every context on standard error.")
def record(
    target: str,
    skip_layers: int,
    suite: str | None,
    question: str | None,
    prompt: str | None,
    advance: int,
    vocab: int,
    scale: int,
    output: Path,
    force: bool,
    verbose: bool,
    temperature: str,
    **shape: Any,
) -> None:
    """Record what a real target and its draft predict after a prompt, as a case file.

    The draft is the target without its last layers. At each context the likeliest tokens of both together are
    kept; only integer weights are written, no text.
    """
    config = _config(temperature, **shape)
    _require_source(suite, question, prompt)
    _require_writable(output, force)
    # These pull in torch and transformers, which the rest of the command line need not wait for.
    from rheo.models.layer_skip import skip_last_layers
    from rheo.models.prompts import chat_ids, find_prompt, load_suite
    from rheo.models.smollm2 import ModelError, load_target, require_libraries
    from verify import cases
    from verify.record import context_count, overlap
    from verify.record import record as record_case

    total = context_count(vocab, config["depth"])
    if total > _MOST_CONTEXTS:
        raise click.UsageError(f"--vocab and --depth make more than {_MOST_CONTEXTS} contexts")
    console = Console(stderr=True)
    try:
        require_libraries(target)
        with _stage(console, "reading the prompt"):
            message = find_prompt(load_suite(suite), question or "0").turns[0] if suite else str(prompt)
        with _stage(console, f"loading {target}"):
            quieten_transformers()
            model, tokenizer = load_target(target)
            draft = skip_last_layers(model, skip_layers)
        with _stage(console, "advancing"):
            prefix = _continued(model, chat_ids(tokenizer, message), advance)
        with _progress(console, total, tokenizer if verbose else None) as on_context:
            document = record_case(model, draft, prefix, vocab, config, scale=scale, on_context=on_context)
        text = cases.dumps(document)
        cases.parse(text, str(output))  # what is written must be what the other commands accept
        _require_writable(output, force)
        write_text(output, text)
    except (ModelError, ValueError, OSError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error
    click.echo(f"{output}: {total} contexts of {vocab} tokens, mean overlap {overlap(document):.3f} over those")


@contextmanager
def _stage(console: Console, name: str) -> Iterator[None]:
    """Say what is being done: a spinner on a terminal, a line elsewhere."""
    if not console.is_terminal:
        console.print(name, highlight=False)
    with console.status(name):
        yield


def _config(temperature: str, **shape: Any) -> dict[str, Any]:
    """The case's settings as JSON values, checked as a sampler would check them."""
    try:
        exact = Fraction(temperature)
    except (ValueError, ZeroDivisionError):
        raise click.UsageError(f"--temperature: no integer or fraction: {temperature!r}") from None
    try:
        Config(**shape, temperature=exact)
    except ConfigError as error:
        raise click.UsageError(f"--{error.key}: {error.reason}") from None
    settings = {key: shape[key] for key in CONFIG_KEYS if key != "temperature"}
    return settings | {"temperature": int(exact) if exact.denominator == 1 else str(exact)}


def _require_source(suite: str | None, question: str | None, prompt: str | None) -> None:
    if (suite is None) == (prompt is None):
        raise click.UsageError("give either --suite or --prompt")
    if question is not None and suite is None:
        raise click.UsageError("--question needs --suite")
    if "" in (suite, prompt):
        raise click.UsageError("--suite and --prompt must not be empty")


def _require_writable(output: Path, force: bool) -> None:
    """Refuse before any work what would fail after it. Not even force replaces a device or a folder."""
    if not output.parent.is_dir():
        raise click.ClickException(f"{output}: no folder {output.parent}")
    if output.exists() and not output.is_file():
        raise click.ClickException(f"{output}: not a regular file")
    if output.exists() and not force:
        raise click.ClickException(f"{output}: exists; --force replaces it")


def _continued(model: Any, ids: list[int], count: int) -> list[int]:
    """A prompt and the first `count` tokens of the target's greedy answer; ValueError if it ends there."""
    if count == 0:
        return ids
    import torch

    prompt = torch.tensor([ids])
    # One token more than wanted tells an answer that goes on from one that stops, whatever stops it.
    options = {"do_sample": False, "max_new_tokens": count + 1, "attention_mask": torch.ones_like(prompt)}
    longer: list[int] = model.generate(prompt, **options)[0].tolist()
    if len(longer) <= len(ids) + count:
        raise ValueError(f"--advance {count}: the target's answer ends with its token {len(longer) - len(ids)}")
    return longer[:-1]


@contextmanager
def _progress(console: Console, total: int, tokenizer: Any) -> Iterator[OnContext]:
    """A bar that every recorded context moves while the body runs; with a tokenizer, its tokens above it."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("recording", total=total)

        def on_context(key: str, tokens: list[int]) -> None:
            bar.advance(task)
            if tokenizer is not None:
                words = " ".join(f"{token}={tokenizer.decode([token])!r}" for token in tokens)
                bar.console.print(f"[{key}] {words}", markup=False, highlight=False, soft_wrap=True)

        yield on_context
