"""`rheo rescore`: the probabilities that an audit needs, for text that any engine emitted."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from rheo.cli.models import TEMPERATURE, load_only
from rheo.files import require_writable
from verify.orders import ORDERS

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("text", type=_PATH, metavar="TEXT_OR_TRACE")
@click.option("--target", default="smollm2", show_default=True, help="smollm2, a model folder or a hub name.")
@click.option("--draft", help="Also write the draft's probability: smollm2, skip:COUNT, a folder or a hub name.")
@click.option("--order", type=click.Choice(tuple(ORDERS)), help="Of the tokens.  [default: p/q with --draft, else p]")
@click.option("--temperature", type=TEMPERATURE, default=1.0, show_default=True, help="Where a request names none.")
@click.option("--chat", is_flag=True, help="Prompts that are text are a user's messages: apply the chat template.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, ...")
@click.option("--output", type=_PATH, required=True, help="The trace for `rheo audit`, .npz or .jsonl; a new file.")
def rescore(
    text: Path,
    target: str,
    draft: str | None,
    order: str | None,
    temperature: float,
    chat: bool,
    device: str,
    output: Path,
) -> None:
    """Write what `rheo audit` reads: the target's probability of every emitted token, from a forward in float32 over
    the whole text, without the cache or the tree of the engine that emitted it.

    TEXT_OR_TRACE holds JSON lines: a request a line, or a trace whose rows name their `token`. docs/audit.md has the
    keys.
    """
    order = order or ("p" if draft is None else "p/q")
    if draft is None and order != "p":
        raise click.UsageError(f"--order {order} needs --draft")
    if output.suffix.lower() not in (".npz", ".jsonl"):
        raise click.UsageError(f"--output: {output}: the suffix is none of .npz, .jsonl")
    require_writable(output)
    if output.exists():
        raise FileExistsError(errno.EEXIST, "a trace is never written over", str(output))
    text.open("rb").close()  # an OSError now rather than later
    from reports.bars import work_bar
    from rheo.models.causal import context_limit, eos_tokens
    from rheo.models.prompts import chat_ids
    from verify.rescore import Limits, RescoreError, read
    from verify.rescore import rescore as rescored

    model, tokenizer, drafter = load_only(target, draft, device)

    def encode(words: str, begins: bool) -> Sequence[int]:
        if begins and chat:
            return chat_ids(tokenizer, words)
        ids: Sequence[int] = tokenizer(words, add_special_tokens=begins)["input_ids"]
        return ids

    vocab, least = model.config.get_text_config().vocab_size, 2 if drafter is not None and drafter.layers else 1
    limits = Limits(vocab, context_limit(model), eos_tokens(model), least)
    try:
        requests = read(text, encode, limits, temperature)
    except RescoreError as error:
        raise click.ClickException(str(error)) from None
    doubtful = sum(request.retokenised for request in requests)
    if doubtful:
        click.echo(
            f"rheo: {text}: {doubtful} of {len(requests)} requests give text without token_ids: tokenised again, which "
            "may not be what was emitted, and then an audit says nothing",
            err=True,
        )
    total = sum(len(request.text.tokens) for request in requests)
    try:
        steps = rescored(output, requests, model, drafter, order)
        with closing(steps), work_bar(total) as moved:
            for done in steps:
                moved(done, text.name)
    except ValueError as error:  # a model whose logits are NaN
        raise click.ClickException(f"{text}: {error}") from None
    cut = sum(request.cut for request in requests)
    behind = f"; {cut:,} behind an end of sequence left out" if cut else ""
    click.echo(f"{output}: {total:,} tokens of {len(requests):,} requests, ordered by {order}{behind}")
