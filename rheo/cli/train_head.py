"""`rheo train-head`: an EAGLE-3 head for a target, from nothing but the target."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.cli.models import DTYPES, quieten_transformers
from rheo.cli.options import Within

if TYPE_CHECKING:
    from rich.progress import Progress
    from torch import Tensor
    from transformers import PreTrainedModel

    from rheo.models.drafters.eagle3_head import Eagle3Head
    from rheo.training.fit import Progress as Fitting


@click.command("train-head")
@click.option("--target", default="smollm2", show_default=True, help="smollm2, a model folder or a hub name.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the head.")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for text and checkpoint, about 8 bytes x width of the target for every token; a run goes on from it.",
)
@click.option("--tokens", type=click.IntRange(1), default=2_000_000, show_default=True, help="To sample, at least.")
@click.option("--length", type=click.IntRange(2), default=384, show_default=True, help="Of a text, beyond its start.")
@click.option("--texts", type=click.IntRange(1), default=384, show_default=True, help="Sampled per shard of text.")
@click.option(
    "--start", help="A head to train further, its sizes and vocabulary kept: smollm2, a folder or a hub name."
)
@click.option("--vocab", type=click.IntRange(2), help="Tokens the head knows.  [default: 16384]")
@click.option("--inner", type=click.IntRange(1), help="Width of the head's MLP.  [default: the target's]")
@click.option("--kv-heads", type=click.IntRange(1), help="For keys and values.  [default: as for queries]")
@click.option("--steps", type=click.IntRange(1), default=3, show_default=True, help="Self-conditioned steps.")
@click.option(
    "--alone", type=Within(0, 1), default=0.5, show_default=True, help="Share of the fit that learns step 1 alone."
)
@click.option("--epochs", type=click.IntRange(1), default=2, show_default=True)
@click.option("--batch", type=click.IntRange(1), default=2048, show_default=True, help="Tokens an optimiser step.")
@click.option("--rate", type=Within(0, min_open=True), default=0.02, show_default=True, help="Highest learning rate.")
@click.option("--weight-decay", type=Within(0), default=0.05, show_default=True)
@click.option(
    "--overlap", type=Within(0), default=1.0, show_default=True, help="Weight of 1 - overlap beside cross-entropy."
)
@click.option(
    "--share", type=Within(0, 1, min_open=True), default=0.5, show_default=True, help="Positions learned, step 2 on."
)
@click.option("--exclude", multiple=True, help="Further suites that no text may share words with.")
@click.option("--limit", type=click.IntRange(1), default=40, show_default=True, help="Held-out prompts per suite.")
@click.option("--dtype", type=click.Choice(DTYPES), default="bfloat16", show_default=True, help="Of the sampling.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def train_head(target: str, output: Path, work: Path, dtype: str, device: str, **settings: Any) -> None:
    """Train an EAGLE-3 head for a target.

    The target samples conversations with itself, at temperatures 1 and 0.7; a head learns its distributions there;
    both are measured on answers to HumanEval and MT-Bench prompts, none of which shares eight words in a row with the
    text. An interrupted run goes on where it was.
    """
    from rheo.models.prompts import PromptError
    from rheo.models.smollm2 import ModelError

    quieten_transformers()
    try:
        output.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        _train(target, output, work, dtype, device, settings)
    except (ModelError, PromptError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


def _train(target: str, output: Path, work: Path, dtype: str, device: str, settings: dict[str, Any]) -> None:
    import torch
    from rich.progress import MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn

    from reports.bars import bars
    from rheo.models.drafters.eagle3 import feature_layers
    from rheo.models.drafters.loading import head_source
    from rheo.models.prompts import load_suite
    from rheo.models.smollm2 import load_target
    from rheo.training import start
    from rheo.training.decoding import use_grouped_attention
    from rheo.training.export import parameters, record_of, save_head
    from rheo.training.fit import FitPlan, Teacher, fit, require_same_plan
    from rheo.training.held_out import held_out
    from rheo.training.measure import agreement
    from rheo.training.prompts import library_functions, opening_tokens, turns_of, word_runs
    from rheo.training.text import TextPlan, sample_text

    measured = {name: load_suite(name) for name in ("humaneval", "mt_bench")}
    suites = [*measured.values(), *(load_suite(name) for name in settings["exclude"])]
    forbidden = {run for prompts in suites for prompt in prompts for turn in prompt.turns for run in word_runs(turn)}
    model, tokenizer = load_target(target, getattr(torch, dtype), device)
    use_grouped_attention(model)
    _require_sizes(settings, model.config.get_text_config().num_attention_heads)
    source = head_source(settings["start"]) if settings["start"] else None
    # A head or a checkpoint that is no good is found before hours of sampling.
    earlier, begun = (start.head_to_go_on(source, model), record_of(source)) if source else (None, None)
    keys_of_plan = ("seed", "epochs", "batch", "steps", "alone", "rate", "weight_decay", "overlap", "share")
    fit_plan = FitPlan(opening=opening_tokens(tokenizer), **{key: settings[key] for key in keys_of_plan})
    checkpoint = work / "fit.pt"
    require_same_plan(checkpoint, fit_plan, earlier)
    layers, turns = feature_layers(model), turns_of(tokenizer, model)
    plan = TextPlan(settings["seed"], settings["texts"], settings["length"], layers)
    with bars(MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), keep=True) as bar:
        task = bar.add_task("sampling text", total=settings["tokens"])
        paths, text = sample_text(
            model, tokenizer, turns, plan, work, settings["tokens"], library_functions(), forbidden,
            lambda tally: bar.update(task, completed=tally.sampled),
        )  # fmt: skip
        model, _ = load_target(target, torch.float32, device)
        scale, seen = start.feature_scale(paths[0]), start.tokens_seen(paths)
        head = (earlier or _new_head(model, seen, scale, settings)).to(device)
        known = head.known.tolist()
        embeddings, matrix = (weights.weight.detach() for weights in start.embedding_pair(model))
        kind = getattr(torch, dtype)
        teacher = Teacher(embeddings, matrix[torch.tensor(known, device=device)].to(kind), scale.to(device))
        fitted = fit(head, teacher, paths, fit_plan, checkpoint, kind != torch.float32, _shown(bar))
        measuring = time.monotonic()
        use_grouped_attention(model)
        found = {}
        for name, prompts in measured.items():
            task = bar.add_task(f"measuring on {name}", total=None)
            answers = held_out(model, tokenizer, prompts[: settings["limit"]], 128, turns, layers, settings["seed"])
            found[name] = asdict(agreement(head, embeddings, matrix, answers))
            bar.remove_task(task)
    record = {
        "target": target,
        "settings": settings | {"dtype": dtype, "device": device},
        "start": begun,
        "text": {
            "shards": len(paths), "tokens": text.sampled, "dropped": text.dropped,
            "covered": start.share_of(seen, known),
        },
        "parameters": parameters(head),
        "held_out": found,
        "seconds": {"text": text.seconds, "fit": fitted, "measure": time.monotonic() - measuring},
        "versions": {name: metadata.version(name) for name in ("rheosampling", "torch", "transformers")},
    }  # fmt: skip
    save_head(output, head, record)
    for name, figures in found.items():
        overlap, top1 = figures["overlap"][0], figures["top1"][0]
        click.echo(f"{name}: overlap {overlap:.3f}, top-1 {top1:.3f} at step 1, over {figures['positions']} tokens")


def _require_sizes(settings: dict[str, Any], queries: int) -> None:
    """ModelError for sizes that cannot be chosen: with --start any, and heads for keys that divide no queries'."""
    from rheo.models.smollm2 import ModelError

    sized = [f"--{name}".replace("_", "-") for name in ("vocab", "inner", "kv_heads") if settings[name]]
    if settings["start"] and sized:
        raise ModelError(f"{sized[0]}: decided by the head of --start")
    if queries % (keys := settings["kv_heads"] or queries):
        raise ModelError(f"--kv-heads: {keys} does not divide the target's {queries} heads")


def _new_head(model: PreTrainedModel, seen: Counter[int], scale: Tensor, settings: dict[str, Any]) -> Eagle3Head:
    from rheo.training import start

    config: Any = model.config.get_text_config()
    known = start.vocabulary(seen, min(settings["vocab"] or start.VOCABULARY, config.vocab_size), config.vocab_size)
    heads = config.num_attention_heads, settings["kv_heads"] or config.num_attention_heads
    return start.new_head(model, known, settings["inner"] or config.intermediate_size, heads, scale, settings["seed"])


def _shown(bar: Progress) -> Callable[[Fitting], None]:
    task = bar.add_task("fitting", total=None)

    def show(progress: Fitting) -> None:
        overlaps = " ".join(f"{value:.3f}" for value in progress.overlaps)
        text = f"fitting, loss {progress.loss:.3f}, overlap {overlaps}"
        bar.update(task, total=progress.total, completed=progress.done, description=text)

    return show
