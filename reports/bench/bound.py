"""The section of single nodes: what each method accepts there, against the most that any rule could."""

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
    rows = [
        [
            Cell(name), fixed(at["candidates"], 1), fixed(at["accepted"]), fixed(at["bound"]),
            fixed(at["bound"] - at["accepted"]), fixed(at["likeliest"]),
        ]
        for name, at in found["methods"].items()
    ]  # fmt: skip
    lead = (
        f"The root of {counted(found['contexts'], 'round start')} with all its children, averaged over what is drawn: "
        "the verification rules alone, without a tree. The bound is the most that any lossless rule accepts of the "
        "method's own candidates, by optimal transport; it bounds one node and does not multiply into a bound for a "
        "tree. Likeliest: the mass of as many tokens that are the target's likeliest, which no candidates fixed before "
        "exceed. Drawn candidates may: drawn from p itself a single one is always accepted, so there is no other bound "
        "for any candidates of that number than 1."
    )
    heads = ["method", "candidates", "accepted", "bound", "short of it", "likeliest"]
    in_numbers = Table("Mean acceptance at depth 1", heads, rows)
    return Section("bound", "One node against the transport bound", lead, [*_drawn(run, found), in_numbers])


def _drawn(run: Json, found: Json) -> Iterator[Figure]:
    points: Sequence[Json] = found["points"]
    pairs = {name: [p["methods"][name] for p in points if name in p["methods"]] for name in found["methods"]}
    names = [name for name, mine in pairs.items() if mine]
    if not names:
        return
    accepted = [Series(name, look(run, name), [at["accepted"] for at in pairs[name]]) for name in names]
    bounds = [[at["bound"] for at in pairs[name]] for name in names]
    missed = [
        Series(each.name, each.look, [at["bound"] - at["accepted"] for at in pairs[each.name]]) for each in accepted
    ]
    means = ", ".join(
        f"{name} {plain(found['methods'][name]['accepted'])} of {plain(found['methods'][name]['bound'])}"
        for name in names
    )
    count = counted(len(points), "real node")
    yield Figure(
        f"Acceptance over the transport bound at {count}; means: {means}",
        f"{count}, a mark a method, over the bound of its own candidates. On the line it attains it.",
        figures.against_bound(bounds, accepted, ("transport bound", "accepted"), "bound"),
    )
    yield Figure(
        f"Distribution over {count} of what each method misses of its transport bound: {', '.join(names)}",
        "Share of the nodes at which a method misses its bound by so much or less: the further left, the better.",
        figures.shares_below(missed, ("bound less acceptance", "share of nodes"), "gap"),
    )
