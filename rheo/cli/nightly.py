"""`rheo nightly`: a sampler under test for ever, with one false-alarm rate."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import click

from rheo.cli.options import SECONDS, SHARE
from rheo.files import require_writable, write_text

_BETWEEN_SAVES = 2.0  # seconds


@click.command()
@click.argument("sampler", metavar="SPEC")
@click.argument("state", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--config", metavar="JSON", help="Settings for its factory, as JSON or a file of it; over the toys' own.")
@click.option("--alpha", type=SHARE, default=1e-9, show_default=True, help="False-alarm rate of the lifetime.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Of the whole lifetime.")
@click.option("--time", "seconds", type=SECONDS, default=60.0, show_default=True, help="Seconds to sample for.")
@click.option("--patience", type=SECONDS, default=60.0, show_default=True, help="Seconds until a sampler hangs.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here.")
def nightly(
    sampler: str,
    state: Path,
    config: str | None,
    alpha: float,
    seed: int,
    seconds: float,
    patience: float,
    json_path: Path | None,
) -> int:
    """Sample SPEC on the battery with seeds that were never used before, and bet against it in one e-process.

    STATE keeps the lifetime: the next call goes on from it. A right sampler is ever called lossy with probability at
    most --alpha, however many nights there are. `lossless` means no evidence against it.
    """
    from reports.bars import seconds_bar
    from reports.console_audit import audit_table
    from rheo.cli.audit import STATUS, begun, record_of
    from rheo.cli.sampler import settings_from
    from verify.audit import save
    from verify.battery import BATTERY
    from verify.contract import SamplerError
    from verify.executors import processes
    from verify.lifetime import Plan
    from verify.nightly import ORDER, nights
    from verify.plan import with_settings

    for path in (state, json_path):
        if path is not None:
            require_writable(path)
    settings = settings_from(config)
    lifetime = begun(Plan(alpha, seed, None), state)
    whose = f"{ORDER} of {sampler} {json.dumps(settings, sort_keys=True)}"
    if lifetime.tokens and lifetime.order != whose:
        raise click.ClickException(f"{state}: the lifetime of another: {lifetime.order or 'traces'}")
    lifetime = replace(lifetime, order=whose)
    workers, before, finished = os.cpu_count() or 1, lifetime.tokens, False
    started = saved = time.monotonic()
    bad: list[str] = []
    try:
        with processes(workers) as executor, seconds_bar(seconds) as moved:
            trials = with_settings(BATTERY, settings)
            for latest in nights(lifetime, sampler, trials, executor, workers, seconds, patience):
                lifetime = latest
                moved(f"{lifetime.tokens:,} tokens")
                if time.monotonic() - saved > _BETWEEN_SAVES:
                    save(state, lifetime)
                    saved = time.monotonic()
        finished = True
    except SamplerError as error:
        bad.append(str(error))
        raise click.ClickException(str(error)) from None
    finally:  # also where it was interrupted
        save(state, lifetime)
        counted = [{"trace": sampler, "counted": lifetime.tokens - before, "audited_before": False}]
        record = record_of(lifetime, 1e-6, finished, counted, bad, state, time.monotonic() - started)
        if json_path is not None:
            write_text(json_path, json.dumps(record, indent=1) + "\n")
    audit_table(record, on_stderr=json_path is not None)
    return STATUS[record["verdict"]]
