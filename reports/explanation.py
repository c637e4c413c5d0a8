"""The page that explains calibrated growth and transport on one small case: its JSON in, HTML out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from reports import trees
from reports.blocks import Block, Cell, Figure, Remark, Section, Table
from reports.console import value_of

Json = dict[str, Any]

_CONTEXT = "the context"
_NAMES = {
    "rheo": "the paper's growth, probe-first",
    "rheo-transport": "the paper's growth, transport",
    "calibrated": "calibrated growth, probe-first",
    "calibrated-transport": "calibrated growth, transport",
}


def facts(found: Json) -> list[tuple[str, str]]:
    """The case in numbers."""
    said = {"anchors": "m, anchors", "slots": "K, slots", "beam": "B, beam", "depth": "D, depth", "budget": "R, nodes"}
    return [(name, str(found["config"][key])) for key, name in said.items()]


def sections(found: Json) -> list[Section]:
    """The case, what slots are worth, how mass moves, what it brings."""
    return [_case(found), _growth(found), _transport(found), _gain(found)]


def _case(found: Json) -> Section:
    slots = {slot["token"]: slot["kind"] for slot in found["growth"]["paper"]["slots"]}
    rows = [
        [Cell(str(token), number=True), _fraction(p), _fraction(q), Cell(slots.get(token, "-"))]
        for token, (p, q) in enumerate(zip(found["p"], found["q"], strict=True))
    ]
    lead = (
        f"{len(found['p'])} tokens, and a draft that is a rough guess of the target. The likeliest token is an anchor: "
        "certain to be proposed. One more is drawn from the rest of the draft: the probe. The probes shown here "
        "are the likeliest there are. A filler is certain again. All numbers are exact."
    )
    table = Table("Target and draft at the context", ["token", "target p", "draft q", "slot"], rows)
    return Section("case", "The case", lead, [table])


def _growth(found: Json) -> Section:
    paper, calibrated = found["growth"]["paper"], found["growth"]["calibrated"]
    rows = [
        [
            Cell(f"{old['kind']} {old['token']}"),
            _fraction(old["score"]),
            _kept(old),
            _fraction(new["score"]),
            _kept(new),
        ]
        for old, new in zip(paper["slots"], calibrated["slots"], strict=True)
    ]
    heads = ["slot", "score in the paper", "in the tree", "calibrated value", "in the tree"]
    lead = (
        "A tree keeps the slots that rank highest. The paper ranks anchors and fillers by their q, and gives the probe "
        "a proxy that does not know which token it is. But what a slot is worth is its chance of acceptance: an anchor "
        "about its q, a probe the overlap of p with the law it is drawn from, and a filler only what the probe's "
        "refusal leaves. Such estimates are as lossless as the paper's scores, if they are known before the probe is "
        "drawn and put no filler before its probe."
    )
    blocks: list[Block] = [Table("The slots of the context, in both growths", heads, rows)]
    for name, tree in (("The paper's tree", paper), ("The calibrated tree", calibrated)):
        labels = {node["row"]: _short(node["score"]) for node in tree["nodes"]}
        svg = trees.draw({"nodes": tree["nodes"], "emitted": []}, labels=labels)
        kinds = ", ".join(
            f"{node['kind']} {node['token']} below {_below(tree['nodes'], node)}" for node in tree["nodes"]
        )
        caption = f"{name}: below each node its score, its parent's times its own."
        blocks.append(Figure(f"{name} of {len(tree['nodes'])} nodes: {kinds}", caption, svg, legend=trees.legend()[:3]))
    return Section("growth", "Calibrated growth", lead, blocks)


def _kept(slot: Json) -> Cell:
    return Cell("dropped") if slot["row"] is None else Cell(f"kept, rank {slot['row']}", "ok")


def _transport(found: Json) -> Section:
    lead = (
        "Verification keeps a number for every way that a round can end: s(y) at a node is the probability that the "
        "output follows the tree to this node, emits y and stops. At first all mass is at the context: p. Nodes come "
        "in the order of their ranks. Each takes over what its law can cover: a certain token all the mass at that "
        "token, a probe the part o = min(q̃, s). Where the probe that was drawn is accepted less often than probes are "
        "on average, everything else grows, anywhere in the tree; where it is accepted more often, everything else "
        "shrinks. The deeper mass stops, the more tokens are emitted."
    )
    nodes = found["growth"]["paper"]["nodes"]
    steps = [None, *found["steps"]]
    parts = [_step(nodes, before, after) for before, after in pairwise(steps) if after is not None]
    return Section("transport", "Transport over the whole tree", lead, [], parts=parts)


def _step(nodes: Sequence[Json], before: Json | None, step: Json) -> Section:
    """What one node changes; with nothing before, where it begins."""
    count, moved = step["node"], step["moved"]
    tokens = range(len(step["densities"][0]))
    rows = [
        [Cell(_name(nodes, row)), *(_fraction(value) for value in density), _fraction(step["masses"][row])]
        for row, density in enumerate(step["densities"])
    ]
    table = Table("Stop densities", ["at", *(f"emits {token}" for token in tokens), "together"], rows)
    exact = "Averaged over the probes, the output's law with the tree so far is the target's: total variation "
    remark = Remark(f"{exact}{step['tv']}.", "ok" if step["tv"] == "0" else "bad")
    if before is None:
        lead = "All mass is at the context: the target alone would emit y and stop."
        return Section("step-0", "Before any node", lead, [_masses(nodes, step, "At first"), table, remark])
    figures = [_masses(nodes, before, "Before"), _masses(nodes, step, "After")]
    blocks: list[Block] = [*figures, table, remark]
    node = nodes[count - 1]
    title = f"Node {count}: {node['kind']} {node['token']} below {_below(nodes, node)}"
    if node["kind"] != "probe":
        lead = f"Certain: it takes over the mass {moved['a']} of its token and continues with p. Nothing else moves."
    else:
        blocks.insert(0, _covered(moved))
        lead = (
            f"Drawn from q̃, which covers M = {moved['M']} of what is there. This token is accepted with "
            f"a = min(1, s/q̃) = {moved['a']}; o is taken out, and all that was there before is multiplied by "
            f"(1 - a)/(1 - M) = {moved['scale']}."
        )
    return Section(f"step-{count}", title, lead, blocks)


def _masses(nodes: Sequence[Json], step: Json, when: str) -> Figure:
    """The tree as far as it is taken, coloured by what stops where."""
    masses = {row: value_of(mass) for row, mass in enumerate(step["masses"])}
    labels = {row: _short(step["masses"][row]) if row in masses else "" for row in range(len(nodes) + 1)}
    said = "; ".join(f"{_name(nodes, row)} {mass}" for row, mass in enumerate(step["masses"]))
    caption = (
        f"{when}. Inside each node its token, below it the mass that stops there; the fuller its colour, the more."
    )
    svg = trees.draw({"nodes": nodes, "emitted": []}, masses, labels)
    return Figure(f"{when}, the tree with the mass that stops at each node: {said}", caption, svg)


def _covered(moved: Json) -> Table:
    names = (("the probe's law q̃", moved["law"]), ("covered, o", moved["o"]))
    rows = [[Cell(name), *map(_fraction, values)] for name, values in names]
    return Table("What the probe covers", ["token", *map(str, range(len(moved["law"])))], rows)


def _gain(found: Json) -> Section:
    given, averaged = found["given_tree"], found["averaged"]
    last = found["steps"][-1]
    terms = [
        f"{_depth(found['growth']['paper']['nodes'], row)}·{mass}" for row, mass in enumerate(last["masses"]) if row
    ]
    rows = [[Cell(f"this tree, {name}"), _fraction(tau), _decimal(tau)] for name, tau in given.items()]
    rows += [[Cell(f"all probes: {_NAMES[name]}"), _fraction(tau), _decimal(tau)] for name, tau in averaged.items()]
    table = Table("Expected tokens of a round", ["of", "exactly", ""], rows)
    lead = (
        f"Given the tree, τ = 1 + Σ depth·mass = 1 + {' + '.join(terms)} = {given['transport']}. Probe-first, which "
        f"asks node by node from the context down, comes to {given['probe-first']} on the same tree. What counts is "
        "the mean over all that the probes could have been."
    )
    note = Remark(
        "This is one case. Transport is usually ahead, not always: the smallest case found on which it is behind is in "
        "docs/theory.md, section 9."
    )
    return Section("gain", "What it brings", lead, [table, note])


def _name(nodes: Sequence[Json], row: int) -> str:
    """A node by the tokens on the way to it."""
    return " ".join(map(str, _tokens(nodes, row))) or _CONTEXT


def _below(nodes: Sequence[Json], node: Json) -> str:
    return _name(nodes, node["parent"])


def _tokens(nodes: Sequence[Json], row: int) -> list[int]:
    return [*_tokens(nodes, nodes[row - 1]["parent"]), nodes[row - 1]["token"]] if row else []


def _depth(nodes: Sequence[Json], row: int) -> int:
    return len(_tokens(nodes, row))


def _fraction(value: str) -> Cell:
    return Cell(value, number=True)


def _decimal(value: str) -> Cell:
    return Cell(f"{value_of(value):.4f}", number=True)


def _short(value: str) -> str:
    """A fraction where there is room for it, else a decimal."""
    return value if len(value) <= 6 else f"{value_of(value):.3f}"
