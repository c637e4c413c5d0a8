"""A benchmark in a line, in a sentence and in a few facts."""

from __future__ import annotations

from typing import Any

from reports.bench.words import AR, AVERAGE
from reports.blocks import Cell, counted, distinct, plain

Json = dict[str, Any]


def headline(run: Json) -> Cell:
    """The figures that a benchmark is run for."""
    row = _foremost(run)
    if row is None:
        return Cell("nothing measured", "warn")
    faster = "" if row["speedup"] is None else f", {row['speedup']:.2f} times as fast"
    return Cell(f"{row['method']}: tau {row['tau']:.2f}{faster}")


def sentence(run: Json) -> str:
    """What they mean, with the paired difference to top-K where there is one."""
    settings, row = run["settings"], _foremost(run)
    if row is None:
        return "No text was finished, so there is nothing to say about tokens a forward or speed."
    suites = distinct(row["suite"] for row in run["summary"]["table"] if row["suite"] != AVERAGE)
    said = (
        f"With {settings['target']} drafted for by {settings['draft']} at temperature {plain(settings['temperature'])},"
        f" {row['method']} emits {row['tau']:.2f} tokens a forward of the target on the average of "
        f"{counted(len(suites), 'suite')}"
    )
    if row["speedup"] is not None:
        said += f", and is {row['speedup']:.2f} times as fast as one token after the other"
    expected = [r for r in run["summary"]["expected"] if (r["suite"], r["method"]) == (AVERAGE, row["method"])]
    less = expected[0]["differences"].get("topk") if expected else None
    if less is not None:
        around = f", 99% interval {less['interval'][0]:+.3f} to {less['interval'][1]:+.3f}" if less["interval"] else ""
        said += f". Its expected tau less that of topk at the same round starts: {less['mean']:+.3f}{around}"
    return f"{said}."


def facts(run: Json) -> list[tuple[str, str]]:
    """The run in numbers: what, how many."""
    settings, row = run["settings"], _foremost(run)
    found = [
        ("target", settings["target"]),
        ("draft", settings["draft"]),
        ("temperature", plain(settings["temperature"])),
        ("dtype", settings["dtype"]),
        ("machine", run["machine"]["gpu"] or run["machine"]["processor"]),
        *([("turns", "all")] if settings.get("turns") == "all" else []),
    ]
    if row is not None:
        found += [("prompts", plain(row["prompts"])), (f"tokens by {row['method']}", plain(row["tokens"]))]
    return [*found, ("seconds", plain(run["seconds"]))]


def _foremost(run: Json) -> Json | None:
    """The row of the table that the headline is about: rheo's average, else the last method's that drafts."""
    rows: list[Json] = [row for row in run["summary"]["table"] if row["suite"] == AVERAGE and row["method"] != AR]
    named = [row for row in rows if row["method"] == "rheo"] or rows[-1:]
    return named[0] if named else None
