"""`rheo bench`: full models; `rheo bench sampler`: what the sampler costs without any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rheo.cli.models import TEMPERATURE, model_options, tree_config, tree_options
from rheo.cli.tuned import TUNED, tuned_configs
from rheo.files import require_writable, write_text
from rheo.methods import METHODS
from verify.benchmark.plan import ABLATIONS, AR


@click.group(invoke_without_command=True)
@model_options
@click.option(
    "--suite",
    "suites",
    multiple=True,
    default=("humaneval", "mt_bench"),
    show_default=True,
    help="humaneval, mt_bench, or a folder with a question.jsonl. May be given several times.",
)
@click.option(
    "--methods",
    default="ar,topk,rheo,adaptive-transport",
    show_default=True,
    help=f"Of {AR}, {', '.join(METHODS)}.",
)
@click.option("--temperature", type=TEMPERATURE, default=1.0, show_default=True)
@click.option("--max-new-tokens", type=click.IntRange(1), default=48, show_default=True, help="Of a text.")
@click.option(
    "--limit", type=click.IntRange(1), default=2, show_default=True, help="Questions of a suite, spread evenly."
)
@click.option(
    "--turns",
    type=click.Choice(["first", "all"]),
    default="first",
    show_default=True,
    help="Of a question with several: the later ones follow on an answer that the target gave.",
)
@click.option(
    "--seeds", type=click.IntRange(0), default=2, show_default=True, help="Texts of a question and method; 0: contexts."
)
@click.option(
    "--contexts",
    type=click.IntRange(1),
    default=6,
    show_default=True,
    help="Round starts of a question at which all methods draft, for the expected tau.",
)
@click.option("--ablations", default="", help=f"Vary these as well: of {', '.join(ABLATIONS)}, or all.")
@tree_options
@TUNED
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write everything here, as it goes on."
)
@click.option("--resume", is_flag=True, help="Go on with what the file of --json holds.")
@click.option(
    "--reuse",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take what fits from the file of another run with the same models and machine. May be given several times.",
)
@click.pass_context
def bench(ctx: click.Context, /, **given: Any) -> int | None:
    """Measure full models: tokens a round, speed-up over autoregressive decoding, expected tau, where the time goes.

    Without options a small run on SmolLM2, which is fetched and converted once. `rheo bench sampler` measures the
    sampler without any model.
    """
    if ctx.invoked_subcommand is not None:
        foreign = [name for name in given if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]
        if foreign:
            raise click.UsageError(f"{ctx.invoked_subcommand} does not take --{foreign[0].replace('_', '-')}")
        return None
    from rheo.cli.model_bench import Request, bench_models

    if given["resume"] and given["json_path"] is None:
        raise click.UsageError("--resume needs --json")
    if given["tuned"] is not None and given["ablations"]:
        raise click.UsageError("--ablations vary one tree: --tuned gives every method its own")
    ablations = ",".join(ABLATIONS) if given["ablations"] == "all" else given["ablations"]
    names = {key: given[key] for key in ("target", "draft", "dtype", "device", "limit", "turns")}
    methods = _listed("--methods", given["methods"], (AR, *METHODS))
    config = tree_config(given["temperature"], given)
    return bench_models(
        Request(
            names=names,
            suites=given["suites"],
            methods=methods,
            config=config,
            max_new_tokens=given["max_new_tokens"],
            seeds=given["seeds"],
            contexts=given["contexts"],
            ablations=_listed("--ablations", ablations, ABLATIONS) if ablations else (),
            json_path=given["json_path"],
            resume=given["resume"],
            reuse=given["reuse"],
            tuned=tuned_configs(given["tuned"], names, [name for name in methods if name != AR], config),
        )
    )


def _listed(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Names joined by commas, each once; a UsageError naming the one that is not known."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise click.UsageError(f"{option}: no {name or 'empty name'}; there are {', '.join(known)}")
    return names


@bench.command()
@click.option("--vocab", type=click.IntRange(256), multiple=True, default=(32_000, 128_256), show_default=True)
@click.option("--batch", type=click.IntRange(1), multiple=True, default=(1, 8, 64), show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=15, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Torch's threads.  [default: all cores]")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
def sampler(
    vocab: tuple[int, ...], batch: tuple[int, ...], repeats: int, threads: int | None, json_path: Path | None
) -> int:
    """Growth and verification per round, without any model, at K 10, B 10, D 8, R 59, S 128.

    Beside it: the floor (top-S of every expanded node and one softmax per node on the path, alone; with torch's topk
    and with the sampler's own top-S), the dense variant (no truncation), and the reference. Ratios are medians of
    ratios within one repeat.
    """
    import torch

    from reports.bars import count_bar
    from reports.console import bench_tables
    from rheo.config import Config
    from verify import sampler_bench

    if json_path is not None:
        require_writable(json_path)
    if threads is not None:
        torch.set_num_threads(threads)
    todo = list(sampler_bench.settings(vocab, batch))
    results = []
    with count_bar(len(todo) + 1) as advance:
        advance("toys")
        toys = sampler_bench.bench_toys(batch=16_384, repeats=repeats)
        for size, requests in todo:
            advance(f"vocabulary {size}, batch {requests}")
            # Large settings take seconds a repeat and vary less.
            few = max(3, repeats // (1 + size * requests // 1_000_000))
            results.append(sampler_bench.bench_setting(Config(), size, requests, few))
    record = {"schema": 1, "settings": results, "toys": toys}
    bench_tables(record, on_stderr=json_path is not None)
    if json_path is not None:
        write_text(json_path, json.dumps(record, indent=1) + "\n")
    return 0
