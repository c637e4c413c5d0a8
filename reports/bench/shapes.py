"""The section of shapes that were measured beforehand, for trees that are settled before anything is drawn."""

from __future__ import annotations

from typing import Any

from reports.blocks import Block, Cell, Section, Table, counted, distinct, fixed, number, plain

Json = dict[str, Any]


def shapes(run: Json) -> Section | None:
    """How many children a node were best, and how often each child is accepted."""
    found = run["summary"]["shapes"]
    if not found:
        return None
    contexts = counted(max(each["contexts"] for each in found), "round start")
    lead = (
        f"Trees of fixed shape are given one that is good for them, by {contexts} of other texts: with independent "
        "draws the number K of children that yields most, for each temperature and tree size; without repeated tokens "
        "the shape that is best if a k-th child is accepted as often as it was there."
    )
    choices = [(each["temperature"], choice) for each in found for choice in each["choices"]]
    blocks: list[Block] = []
    if choices:
        tried = sorted(distinct(k for _, choice in choices for k in choice["tried"]))
        rows = []
        for temperature, choice in choices:
            tau = dict(zip(choice["tried"], choice["tau"], strict=False))
            row = [Cell(plain(temperature)), number(choice["budget"]), Cell(choice["method"]), number(choice["slots"])]
            for k in tried:
                said = "-" if k not in tau else f"{tau[k]:.3f}"
                row.append(Cell(said, number=True, strong=k == choice["slots"]))
            rows.append(row)
        heads = ["temperature", "nodes", "method", "K", *(f"tau at K = {k}" for k in tried)]
        blocks.append(Table("Children a node, by expected tau", heads, rows))
    rates = [each for each in found if each["acceptance"]]
    if rates:
        width = max(len(each["acceptance"]) for each in rates)
        lines = [
            [Cell(plain(each["temperature"])), *(fixed(rate) for rate in each["acceptance"]),
             *[fixed(None)] * (width - len(each["acceptance"]))]
            for each in rates
        ]  # fmt: skip
        caption = "How often the k-th child is the one accepted, distinct children"
        blocks.append(Table(caption, ["temperature", *(f"k = {k}" for k in range(1, width + 1))], lines))
    return Section("shapes", "Trees of fixed shape", lead, blocks)
