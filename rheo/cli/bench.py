"""`rheo bench`: what the sampler costs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rheo.files import require_writable, write_text


@click.group()
def bench() -> None:
    """Measure what the sampler costs."""


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

    from reports.console import bench_tables, progress
    from rheo.config import Config
    from verify import sampler_bench

    if json_path is not None:
        require_writable(json_path)
    if threads is not None:
        torch.set_num_threads(threads)
    todo = list(sampler_bench.settings(vocab, batch))
    results = []
    with progress(len(todo) + 1) as advance:
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
