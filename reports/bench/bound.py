"""The section of single nodes: what each rule accepts there, against the most that any could."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reports.bench import figures
from reports.bench.figures import Series
from reports.bench.words import look
from reports.blocks import Cell, Figure, Section, Table, counted, fixed, plain

Json = dict[str, Any]


def depth_one(run: Json) -> Section | None:
    """The verification rules at real nodes, against the transport bound."""
    found = run["summary"]["depth_one"]
    if not found:
        return None
    rows = [[Cell(name), fixed(value), fixed(found["bound"] - value)] for name, value in found["methods"].items()]
    rows.append([Cell("transport bound"), fixed(found["bound"]), fixed(None)])
    lead = (
        f"The root of {counted(found['contexts'], 'round start')} with all slots alive, averaged over the probe "
        "exactly: the verification rules alone, without a tree. The bound is the most that a lossless rule accepts of "
        "rheo's candidates, by optimal transport; it bounds one node and does not multiply into a bound for a tree."
    )
    in_numbers = Table("Mean acceptance at depth 1", ["rule of", "accepted", "short of the bound"], rows)
    return Section("bound", "One node against the transport bound", lead, [*_drawn(run, found), in_numbers])


def _drawn(run: Json, found: Json) -> Iterator[Figure]:
    points: Sequence[Json] = found["points"]
    names = [name for name in found["methods"] if any(name in point["methods"] for point in points)]
    if not names:
        return
    bounds = [point["bound"] for point in points]
    accepted = [Series(n, look(run, n), [point["methods"].get(n) for point in points]) for n in names]
    missed = [
        Series(each.name, each.look, [b - a for a, b in zip(each.values, bounds, strict=True) if a is not None])
        for each in accepted
    ]
    means = ", ".join(f"{name} {plain(found['methods'][name])}" for name in names)
    count = counted(len(points), "real node")
    yield Figure(
        f"Acceptance over the transport bound at {count}; means: {means}, the bound {plain(found['bound'])}",
        f"{count}, a mark a rule. On the line it attains the bound; top-K, whose candidates are others, may lie above.",
        figures.against_bound(bounds, accepted, ("transport bound", "accepted"), "bound"),
    )
    yield Figure(
        f"Distribution over {count} of what each rule misses of the transport bound: {', '.join(names)}",
        "Share of the nodes at which a rule misses the bound by so much or less: the further left, the better.",
        figures.shares_below(missed, ("bound less acceptance", "share of nodes"), "gap"),
    )
