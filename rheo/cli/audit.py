"""`rheo audit`: the e-process and the Kolmogorov test over traces of a real engine."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rheo.cli.main import complain
from rheo.files import require_writable, write_text

if TYPE_CHECKING:
    from verify.lifetime import Lifetime, Plan

STATUS = {"lossless": 0, "lossy": 1, "bad_input": 2, "inconclusive": 3}
_SAVE_SECONDS = 2.0


def _rate(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not 1e-300 < value < 1:  # a NaN neither, which click's own range lets through
        raise click.BadParameter(f"{value} is not between 0 and 1.")
    return value


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", type=click.Path(path_type=Path))
@click.option("--state", type=click.Path(dir_okay=False, path_type=Path), help="The lifetime: gone on with, and saved.")
@click.option(
    "--alpha",
    type=float,
    callback=_rate,
    default=1e-9,
    show_default=True,
    help="False-alarm rate, once for the whole lifetime.",
)
@click.option(
    "--beta", type=float, callback=_rate, default=1e-6, show_default=True, help="Miss rate at which sizes are stated."
)
@click.option(
    "--tokens",
    type=click.IntRange(1),
    help="Also test the first so many tokens of the lifetime with Kolmogorov-Smirnov. Fix it before looking.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Of the randomiser.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all results here.")
def audit(
    traces: tuple[Path, ...],
    state: Path | None,
    alpha: float,
    beta: float,
    tokens: int | None,
    seed: int,
    json_path: Path | None,
) -> int:
    """Whether the tokens in each TRACE (.npz, .jsonl, .parquet) were drawn from the target's probabilities.

    All traces are one lifetime, with --state also those of earlier calls: one alpha for all of it, looked at as often
    as one likes. `lossless` means no evidence against it; how large a fault would have been found is stated.
    """
    from reports.bars import bytes_bar
    from reports.console_audit import audit_table
    from verify.audit import audit as audit_trace
    from verify.audit import save
    from verify.lifetime import Plan
    from verify.trace import TraceError

    _require_outputs(traces, state, json_path)
    started = saved = time.monotonic()
    lifetime = begun(Plan(alpha, seed, tokens), state)
    done: list[dict[str, Any]] = []
    bad: list[str] = []
    finished = False
    try:
        with bytes_bar([path.stat().st_size if path.is_file() else 0 for path in traces]) as advance:
            for number, path in enumerate(traces):
                steps, before, known = audit_trace(lifetime, path), lifetime.tokens, True
                try:
                    for lifetime, share in steps:
                        known = False
                        advance(number, share, path.name)
                        if state is not None and time.monotonic() - saved >= _SAVE_SECONDS:
                            save(state, lifetime)
                            saved = time.monotonic()
                    done.append({"trace": str(path), "counted": lifetime.tokens - before, "audited_before": known})
                except TraceError as error:
                    complain(str(error))
                    bad.append(str(error))
        finished = True
    finally:  # also where it was interrupted
        if state is not None:
            save(state, lifetime)
        record = record_of(lifetime, beta, finished, done, bad, state, time.monotonic() - started)
        if json_path is not None:
            write_text(json_path, json.dumps(record, indent=1) + "\n")
    if lifetime.tokens:
        audit_table(record, on_stderr=json_path is not None)
    return STATUS[record["verdict"]]


def _require_outputs(traces: tuple[Path, ...], state: Path | None, json_path: Path | None) -> None:
    """OSError or a usage error, before any work, for outputs that cannot be written or would replace an input."""
    for name, path in (("--state", state), ("--json", json_path)):
        if path is None:
            continue
        require_writable(path)
        others = [*traces, state] if name == "--json" else traces
        if any(other is not None and other.resolve() == path.resolve() for other in others):
            raise click.UsageError(f"{name}: {path} is also read")


def begun(plan: Plan, state: Path | None) -> Lifetime:
    """A new lifetime, or the saved one if it was begun with the same plan."""
    from verify.audit import StateError, load
    from verify.lifetime import Lifetime

    if state is None or not state.exists():
        return Lifetime(plan)
    try:
        lifetime = load(state)
    except StateError as error:
        raise click.ClickException(str(error)) from None
    for name, value in vars(lifetime.plan).items():
        if value != getattr(plan, name):
            raise click.ClickException(f"{state}: begun with --{name} {value}, not {getattr(plan, name)}")
    return lifetime


def record_of(
    lifetime: Lifetime,
    beta: float,
    finished: bool,
    done: list[dict[str, Any]],
    bad: list[str],
    state: Path | None,
    seconds: float,
) -> dict[str, Any]:
    """The result of an audit as JSON."""
    from verify.lifetime import findings
    from verify.lifetime import verdict as verdict_of

    plan, found = lifetime.plan, findings(lifetime, beta)
    verdict = "bad_input" if bad else verdict_of(lifetime, found)
    return {
        "schema": 2,
        "kind": "audit",
        "verdict": verdict if finished or bad else "interrupted",
        "complete": finished,
        "alpha": plan.alpha,
        "beta": beta,
        "seed": plan.seed,
        "order": lifetime.order or None,
        "tokens": lifetime.tokens,
        "tokens_planned": plan.tokens,
        "impossible": lifetime.impossible,
        "first_impossible": lifetime.first_impossible or None,
        "tests": [vars(finding) for finding in found],
        "e_value": _finite_exp(lifetime.eprocess.log_evidence),
        "peak": _finite_exp(lifetime.eprocess.log_peak),
        "pit": {lifetime.order.partition(" of ")[0] or "unstated": _histogram(lifetime.eprocess.counts)}
        if lifetime.tokens
        else None,
        "log10_e_value": lifetime.eprocess.log_evidence / math.log(10),
        "traces": done,
        "unfinished": [{"trace": seen.name, "rows": seen.rows} for seen in lifetime.seen if not seen.complete],
        "bad_input": bad,
        "state": None if state is None else str(state),
        "seconds": round(seconds, 1),
    }


def _finite_exp(log: float) -> float:
    """e^log, at most 1e300: what a reader of the JSON can hold."""
    return min(math.exp(min(log, 700)), 1e300)


def _histogram(counts: tuple[int, ...]) -> list[int]:
    """The counts in 16 bins that can be drawn."""
    width = len(counts) // 16
    return [sum(counts[first : first + width]) for first in range(0, len(counts), width)]
