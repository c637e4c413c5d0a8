"""The section of what the figures rest on: numeric floor, machine, settings."""

from __future__ import annotations

from typing import Any

from reports.bench.words import size
from reports.blocks import Block, Cell, Remark, Section, Table, counted, plain

Json = dict[str, Any]


def setting(run: Json) -> Section:
    """Numeric floor, machine and settings."""
    floor = run["summary"]["floor"]
    blocks: list[Block] = []
    if floor:
        said = (
            f"Numeric floor, {floor['dtype']}: p over a tree and p one token after the other differ by a total "
            f"variation of {plain(floor['mean'])} on average and {plain(floor['largest'])} at most, "
            f"over {counted(floor['tokens'], 'emitted token')}. What is less cannot be told from rounding."
        )
        blocks.append(Remark(said))
    asked = {**run["settings"], **run["settings"]["config"]}
    del asked["config"]
    for name, tree in asked.pop("tuned", {}).items():
        asked[f"tree of {name}"] = ", ".join(f"{key} {tree[key]}" for key in ("budget", "depth", "beam"))
    machine = {**run["machine"], "memory_bytes": size(run["machine"]["memory_bytes"])}
    blocks += [_pairs("What was asked for", asked), _pairs("The machine", machine), _pairs("Versions", run["versions"])]
    return Section("setting", "Numeric floor, machine and settings", "", blocks)


def _pairs(caption: str, values: Json) -> Table:
    rows = [[Cell(name.replace("_bytes", "").replace("_", " ")), Cell(_said(value))] for name, value in values.items()]
    return Table(caption, ["name", "value"], rows)


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
