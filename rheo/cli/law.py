"""`rheo law`: the output law of cases, a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from reference.methods import METHODS, Method

if TYPE_CHECKING:
    from verify.cases import Case


@click.command()
@click.argument("cases", nargs=-1, required=True, metavar="CASE...")
@click.option(
    "--method",
    metavar="NAME",
    help=f"One method: {', '.join(METHODS)}; or your own, path/file.py:name or package.module:name.  "
    "[default: the paper's three, and others that CASE names]",
)
@click.option("--backend", type=click.Choice(["reference", "torch"]), default="reference", show_default=True)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    help="Of torch.",
)
@click.option("--law", "with_law", is_flag=True, help="Add the probability of every output sequence.")
@click.option("--json", "only_json", is_flag=True, help="Nothing but JSON lines; no table on standard error.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Trees enumerated before giving up.",
)
def law(
    cases: tuple[str, ...],
    method: str | None,
    backend: str,
    dtype: str,
    with_law: bool,
    only_json: bool,
    limit: int,
) -> int:
    """The law of one round's output on each CASE file, continued by the target to depth + 1 tokens.

    The reference is exact, in Fractions printed as strings; torch is measured from outside, in floats. A method of your
    own is an object with a growth and a rule of the reference's kinds.
    """
    own = None if method is None or method in METHODS else _own(method, backend)
    from verify import cases as case_files
    from verify.contract import SamplerError
    from verify.enumeration import InconclusiveError
    from verify.gate import Status

    if backend == "torch":
        import torch

        torch.set_num_threads(1)  # toys are small: more threads only wait for each other
    status = Status.LOSSLESS
    records = []
    for path in cases:
        try:
            case = case_files.load(path)
            for record in _records(case, (method,) if method else case.methods, own, backend, dtype, with_law, limit):
                click.echo(json.dumps(record))
                records.append(record)
                status = max(status, Status.LOSSLESS if record["lossless"] else Status.LOSSY)
        except (case_files.CaseError, SamplerError) as error:
            click.echo(f"rheo: {error}", err=True)
            status = max(status, Status.BAD_INPUT)
        except InconclusiveError as error:
            click.echo(f"rheo: {path}: {error}", err=True)
            status = max(status, Status.INCONCLUSIVE)
    if records and not only_json:
        from reports.console import law_table

        law_table(records)
    return int(status)


def _own(spec: str, backend: str) -> Method:
    """The user's method; a UsageError if there is none, or it cannot be used."""
    from verify.contract import SamplerError
    from verify.own_methods import own_method

    if ":" not in spec:
        raise click.UsageError(f"--method: {spec!r} is none of {', '.join(METHODS)}, and no path/file.py:name")
    if backend == "torch":
        raise click.UsageError("--backend torch: a method of your own is one of the reference")
    try:
        return own_method(spec)
    except SamplerError as error:
        raise click.UsageError(f"--method: {error}") from None


def _records(
    case: Case, methods: tuple[str, ...], own: Method | None, backend: str, dtype: str, with_law: bool, limit: int
) -> Iterator[dict[str, Any]]:
    """A line for each method; `own`: the user's, by the only name in `methods`."""
    from verify.judgement import judge_reference, judge_torch
    from verify.own_methods import judge_own

    for method in methods:
        if own is not None:
            judged = judge_own(case, method, own, limit)
        elif backend == "torch":
            judged = judge_torch(case, method, dtype, limit)
        else:
            judged = judge_reference(case, method, limit)
        for fault in judged.faults[:3]:
            click.echo(f"rheo: {case.name}: {method}: {fault}", err=True)
        yield judged.record(with_law)
