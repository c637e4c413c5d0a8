"""The sections of what a round is made of: acceptance by depth, and where its time and memory go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.bench import figures
from reports.bench.figures import Series
from reports.bench.words import ALL, AR, PARTS, look, size
from reports.blocks import Block, Cell, Figure, Section, Table, fixed, number, plain

Json = dict[str, Any]


def acceptance(run: Json) -> Section | None:
    """What is accepted at each depth."""
    rows = run["summary"]["acceptance"]
    depths = max((len(row["sampled"]) for row in rows), default=0)
    if not depths:
        return None
    heads = ["suite", "method", "", "rounds", *(str(depth) for depth in range(1, depths + 1))]
    cells = []
    for row in rows:
        for what in ("sampled", "expected"):
            rounds = row["reached"][0] if what == "sampled" and row["reached"] else None
            shares = [*(row[what] or []), *[None] * depths][:depths]
            named = [Cell(row["suite"]), Cell(row["method"]), Cell(what), number(rounds)]
            cells.append([*named, *(fixed(share, 3) for share in shares)])
    in_numbers = Table("Acceptance by depth in numbers", heads, cells, folded=True)
    return Section("depths", "Acceptance by depth", "", [_by_depth(run, rows, depths), in_numbers])


def _by_depth(run: Json, rows: Sequence[Json], depths: int) -> Figure:
    pooled = [row for row in rows if row["suite"] == ALL]
    looks = [(row, look(run, row["method"])) for row in pooled]
    series = [Series(row["method"], index, _padded(row["sampled"], depths)) for row, index in looks]
    series += [
        Series(row["method"], index, _padded(row["expected"], depths), dashed=True)
        for row, index in looks
        if row["expected"]
    ]
    first = ", ".join(f"{row['method']} {plain(row['sampled'][0])}" for row in pooled if row["sampled"])
    label = f"Share accepted at each depth from 1 to {depths}; at depth 1: {first}"
    caption = (
        "The share of rounds that accept a token at a depth, of those that accepted one at every depth before, all "
        "suites together. Dashed: expected values at the shared round starts."
    )
    says = ("depth", "share accepted")
    return Figure(label, caption, figures.curves([str(d) for d in range(1, depths + 1)], series, says, "depth"))


def _padded(shares: Sequence[float | None], depths: int) -> list[float | None]:
    return [*shares, *[None] * depths][:depths]


def time(run: Json) -> Section | None:
    """Where a round's time goes, and what memory it takes."""
    rows = run["summary"]["time"]
    if not rows:
        return None
    lead = (
        "draft: the drafter's forwards. verify: the target's. sampling: growth and verification without the models. "
        "rest: the loop around, caches and bookkeeping. Memory: the peak of the process, of the device on cuda."
    )
    known = [f"{row['method']} {plain(row['milliseconds']['round'])} ms" for row in rows]
    label = f"Time of a round split into {', '.join(PARTS)}: {', '.join(known)}"
    sampling = [f"{row['method']} {row['shares']['sampling']:.1%}" for row in rows if row["method"] != AR]
    caption = "Milliseconds of a round." + (f" Sampling is this much of it: {', '.join(sampling)}." if sampling else "")
    parts = [(part, [row["milliseconds"][part] for row in rows]) for part in PARTS]
    drawn = figures.stacked([row["method"] for row in rows], parts, "ms a round", "split")
    heads = ["method", "rounds", "round, ms", *(f"{p}, ms" for p in PARTS), *(f"{p}, %" for p in PARTS), "peak memory"]
    cells = [
        [
            Cell(row["method"]), number(row["rounds"]), fixed(row["milliseconds"]["round"], 1),
            *(fixed(row["milliseconds"][part], 1) for part in PARTS),
            *(fixed(100 * row["shares"][part], 1) for part in PARTS), Cell(size(row["memory_bytes"]), number=True),
        ]
        for row in rows
    ]  # fmt: skip
    blocks: list[Block] = [Figure(label, caption, drawn), Table("Time and memory in numbers", heads, cells)]
    return Section("time", "Time and memory", lead, blocks)
