"""`rheo generate`: text from a target, drafted and verified, as it comes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from rheo.cli.models import DEFAULT_METHOD, METHOD, TEMPERATURE, load, model_options, tree_config, tree_options
from rheo.cli.options import Within
from rheo.cli.tuned import TUNED, tuned_configs

if TYPE_CHECKING:
    from rich.console import Console

    from rheo.cli.models import Loaded
    from rheo.models.generation import Round


@dataclass
class _Made:
    """What has been generated so far. accepted: drafted tokens that each round accepted, those behind an end too."""

    tokens: list[int] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    text: str = ""
    end: str | None = None
    tree: dict[str, Any] | None = None
    seconds: float = 0.0


@click.command()
@click.argument("prompt")
@model_options
@click.option("--method", type=METHOD, help=f"rheo is the paper's.{DEFAULT_METHOD}")
@tree_options
@TUNED
@click.option("--refine", is_flag=True, help="Learn from round to round what slots are worth; a calibrated --method.")
@click.option("--temperature", type=TEMPERATURE, default=1.0, show_default=True, help="0 is greedy.")
@click.option("--top-k", type=click.IntRange(1), help="Of the target, as the two that follow.")
@click.option("--top-p", type=Within(0, 1, min_open=True))
@click.option("--min-p", type=Within(0, 1))
@click.option("--repetition-penalty", type=Within(0, min_open=True), help="Above 1: against what text and prompt hold.")
@click.option("--no-repeat-ngram", type=click.IntRange(1), help="Length of which no sequence comes twice.")
@click.option("--max-new-tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Of all sampling.")
@click.option("--stop", multiple=True, metavar="TEXT", help="End behind this text; may be given several times.")
@click.option("--raw", is_flag=True, help="The prompt as it is, without the chat template.")
@click.option(
    "--show-tree",
    type=click.IntRange(1),
    is_flag=False,
    flag_value=1,
    metavar="[ROUND]",
    help="Show the tree of a round, the first unless given. Write it behind PROMPT.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON line instead of the text.")
def generate(
    prompt: str,
    target: str,
    draft: str,
    dtype: str,
    device: str,
    method: str | None,
    temperature: float,
    seed: int,
    show_tree: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Generate text behind PROMPT; - reads it from standard input.

    On a terminal, each token has the colour of its origin: anchors, probes and fillers were drafted, a residual
    replaces refused drafts, a bonus follows where nothing was drafted. Figures follow, on standard error where the
    output is not a terminal.
    """
    config = tree_config(temperature, options)
    names = {"target": target, "draft": draft, "dtype": dtype, "device": device}
    text = _text(prompt)
    if "" in options["stop"]:
        raise click.UsageError("--stop must not be empty")
    from rich.console import Console

    from reports import console_generation
    from rheo.models.drafters import default_method
    from rheo.models.smollm2 import ModelError

    console = Console(highlight=False)
    coloured = console.is_terminal and not as_json
    loaded = load(target, draft, dtype, device)
    method = method or default_method(config, loaded.drafter)
    config = tuned_configs(options["tuned"], names, (method,), config).get(method, config)
    made = _Made()
    interrupted = False
    started = time.perf_counter()
    try:
        rounds = _rounds(loaded, text, config, method, seed, options)
        if coloured:
            console_generation.legend(console)
        _collect(loaded, rounds, made, None if as_json else console, show_tree)
    except KeyboardInterrupt:
        interrupted = True
    except (ModelError, ValueError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error
    made.seconds = time.perf_counter() - started
    record = {"target": target, "draft": draft, "method": method, "temperature": temperature, "seed": seed}
    record |= _figures(made, config.depth, interrupted)
    if as_json:
        click.echo(json.dumps(record))
    elif made.text and not made.text.endswith("\n"):
        click.echo()
    if made.tree is not None:
        console_generation.tree(record, on_stderr=not coloured)
    elif show_tree is not None:
        click.echo(f"rheo: --show-tree {show_tree}: there were {len(made.accepted)} rounds", err=True)
    if made.accepted:
        console_generation.summary(record, on_stderr=not coloured)
    if interrupted:
        raise KeyboardInterrupt
    return 0


def _text(prompt: str) -> str:
    """The prompt, or standard input without its last line's end; a click error where there is none."""
    text = prompt
    if prompt == "-":
        try:
            text = sys.stdin.read().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise click.ClickException(f"standard input is not UTF-8: {error.reason}") from None
    if not text:
        raise click.UsageError("PROMPT must not be empty")
    return text


def _rounds(loaded: Loaded, text: str, config: Any, method: str, seed: int, options: dict[str, Any]) -> Iterator[Round]:
    """The rounds of one request, begun with the first that is asked for."""
    from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

    from rheo import processors
    from rheo.decoding import Sampler
    from rheo.methods import METHODS
    from rheo.models.causal import eos_tokens
    from rheo.models.drafters import calibrated
    from rheo.models.generation import Limits, generate, stop_strings
    from rheo.models.path_processors import path_processors
    from rheo.models.prompts import chat_ids

    names = ("top_k", "top_p", "min_p")
    tops = [getattr(processors, name)(options[name]) for name in names if options[name] is not None]
    sampler = Sampler(calibrated(config, loaded.drafter), METHODS[method], processors.chain(*tops) if tops else None)
    by_path: list[Any] = []
    if options["repetition_penalty"] is not None:
        by_path.append(RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]))
    if options["no_repeat_ngram"] is not None:
        by_path.append(NoRepeatNGramLogitsProcessor(options["no_repeat_ngram"]))
    tokenizer: Any = loaded.tokenizer
    ids = list(tokenizer(text)["input_ids"]) if options["raw"] else chat_ids(tokenizer, text)
    limits = Limits(
        options["max_new_tokens"],
        eos=eos_tokens(loaded.model),
        stop=stop_strings(tokenizer, options["stop"]) if options["stop"] else None,
    )
    paths = path_processors(by_path, [ids]) if by_path else []
    return generate(loaded.model, loaded.drafter, sampler, [ids], [seed], limits, paths, refine=options["refine"])


def _collect(
    loaded: Loaded, rounds: Iterator[Round], made: _Made, console: Console | None, show_tree: int | None
) -> None:
    """Play the rounds, note what they made, and show it as it comes."""
    from rheo.models.generation import ORIGINS
    from rheo.models.pieces import Pending, last_piece, next_piece

    pending = Pending()
    for done in rounds:
        made.accepted.append(int(done.path.lengths[0]) - 1)
        if len(made.accepted) == show_tree:
            made.tree = _tree(loaded, done, show_tree)
        for token, number in zip(done.tokens[0], done.origins[0], strict=True):
            text, pending = next_piece(loaded.tokenizer, pending, token)
            made.tokens.append(token)
            made.origins.append(ORIGINS[number])
            made.text += text
            _show(console, text, ORIGINS[number])
        made.end = done.ends[0]
    text = last_piece(loaded.tokenizer, pending)
    made.text += text
    _show(console, text, made.origins[-1])


def _show(console: Console | None, text: str, origin: str) -> None:
    from reports.console_generation import piece

    if console is None or not text:
        return
    if console.is_terminal:
        piece(console, text, origin)
    else:
        click.echo(text, nl=False)


def _tree(loaded: Loaded, done: Round, number: int) -> dict[str, Any]:
    """A round's tree as JSON; a node's parent counts from 0, the root, and from 1, the first of the rows."""
    from rheo.models.generation import BONUS, ORIGINS, RESIDUAL

    tree, path = done.tree, done.path
    length = int(path.lengths[0])
    kept = set(path.rows[0, : length - 1].tolist())
    columns = (tree.tokens, tree.parents, tree.kinds, tree.scores)
    values = zip(*(column[0].tolist() for column in columns), strict=True)
    rows = [
        {
            "token": token,
            "text": str(loaded.tokenizer.decode([token])),
            "kind": ORIGINS[kind],
            "score": score,
            "parent": parent,
            "accepted": row in kept,
        }
        for row, (token, parent, kind, score) in enumerate(values, start=1)
        if tree.occupied[0, row - 1]  # those that are not stand behind all that are
    ]
    end, token = max(kept, default=0), int(path.tokens[0, length - 1])
    refused = any(row["parent"] == end for row in rows)
    last = {"token": token, "text": str(loaded.tokenizer.decode([token]))}
    return {
        "round": number,
        "nodes": len(rows),
        "accepted": length - 1,
        "rows": rows,
        "end": end,
        "last": last | {"kind": ORIGINS[RESIDUAL if refused else BONUS]},
    }


def _figures(made: _Made, depth: int, interrupted: bool) -> dict[str, Any]:
    """What is known of a run at its end, as JSON."""
    rounds = len(made.accepted)
    record = {
        "text": made.text,
        "tokens": made.tokens,
        "origins": made.origins,
        "end": made.end,
        "complete": not interrupted,
        "rounds": rounds,
        "seconds": round(made.seconds, 3),
        "tokens_per_second": len(made.tokens) / made.seconds,
        "tau": 1 + sum(made.accepted) / rounds if rounds else None,
        "acceptance": acceptance(made.accepted, depth),
    }
    return record if made.tree is None else record | {"tree": made.tree}


def acceptance(accepted: Sequence[int], deepest: int) -> list[dict[str, Any]]:
    """By depth: of the rounds that accepted all above it, the share that accepted a token there too.

    accepted: the number of each round. Depths that no round reached are left out.
    """
    found = []
    for depth in range(1, deepest + 1):
        reached = sum(count >= depth - 1 for count in accepted)
        if reached:
            share = sum(count >= depth for count in accepted) / reached
            found.append({"depth": depth, "rounds": reached, "share": share})
    return found
