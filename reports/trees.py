"""A draft tree as inline SVG: the root on the left, a column a depth, the accepted path drawn thick.

Kinds differ in shape as well as in colour: an anchor is a square, a probe a circle, a filler a hexagon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

Json = dict[str, Any]

_COLUMN, _ROW = 74, 54  # distance of nodes
_LEFT, _TOP = 34, 30  # the root's place, and the room above the first leaf
_SIZE = 13  # half a node

_LINE = Markup('<path class="{}" d="M{} {}C{} {} {} {} {} {}"/>')
_TEXT = Markup('<text class="{}" x="{}" y="{}">{}</text>')


def draw(example: Json, masses: Mapping[int, float] | None = None, labels: Mapping[int, str] | None = None) -> Markup:
    """The <svg> of one round. Nodes must come after their parents; row 0 is the root.

    masses: by row, colour nodes and the root by how much stops there; rows without one are shown as still to come.
    labels: by row, replace what stands below the nodes.
    """
    nodes: Sequence[Json] = example["nodes"]
    children: dict[int, list[int]] = {0: []}
    depth = {0: 0}
    for node in nodes:
        children.setdefault(node["row"], [])
        children[node["parent"]].append(node["row"])
        depth[node["row"]] = depth[node["parent"]] + 1
    drawn, after = _last_token(example)
    height = _heights(children, after if drawn is not None else None)
    place = {row: (_LEFT + _COLUMN * depth[row], _TOP + _ROW * height[row]) for row in depth}
    labels = labels or {}
    root = _circle("root", *place[0]) if masses is None else _weighed(_circle("node", *place[0]), masses.get(0))
    lines, marks = [], [root, _TEXT.format("name", place[0][0], place[0][1] + 28, labels.get(0, "context"))]
    for node in nodes:
        (x, y), accepted = place[node["row"]], node.get("accepted", False)
        lines.append(_edge("edge taken" if accepted else "edge", place[node["parent"]], (x, y)))
        kind = node["kind"] if node["kind"] in _SHAPES else "filler"
        shape = _SHAPES[kind](f"node {kind}{' taken' if accepted else ''}", x, y)
        marks.append(shape if masses is None else _weighed(shape, masses.get(node["row"])))
        marks.append(_TEXT.format(f"token on-{kind}" if masses is None else "token", x, y + 4, node["token"]))
        if node["row"] in labels or node.get("score") is not None:
            below = labels[node["row"]] if node["row"] in labels else f"{node['score']:.3g}"
            marks.append(_TEXT.format("name", x, y + 26, below))
    if drawn is not None:
        x, y = place[after][0] + _COLUMN, _TOP + _ROW * height[-1]
        lines.append(_edge("edge taken beside", place[after], (x, y)))
        marks += [_pill("node drawn taken", x, y), _TEXT.format("token on-drawn", x, y + 4, drawn)]
        marks.append(_TEXT.format("name", x, y + 26, "drawn"))
        place[-1] = (x, y)
    width = max(x for x, _ in place.values()) + 30
    tall = max(y for _, y in place.values()) + 40
    head = Markup('<svg class="tree" viewBox="0 0 {0} {1}" width="{0}" height="{1}">').format(width, tall)
    return head + Markup("").join([*lines, *marks]) + Markup("</svg>")


def legend() -> list[tuple[Markup, str]]:
    """Each mark of a drawn tree with what it stands for."""
    head = Markup('<svg class="tree" viewBox="-3 -3 42 42" width="28" height="28" aria-hidden="true">{}</svg>')
    kinds = [
        ("anchor", "anchor: certain"),
        ("probe", "probe: drawn from the tail"),
        ("filler", "filler: certain, behind the probe"),
    ]
    marks = [(head.format(_SHAPES[kind](f"node {kind}", 18, 18)), text) for kind, text in kinds]
    marks.append((head.format(_edge("edge taken", (2, 18), (34, 18))), "accepted path"))
    return [*marks, (head.format(_pill("node drawn taken", 18, 18)), "last token: drawn where the path ends")]


def _last_token(example: Json) -> tuple[int | None, int]:
    """The emitted token that was not drafted, None if there is none; and the row of the last accepted node."""
    taken = [node["row"] for node in example["nodes"] if node.get("accepted", False)]
    emitted = example["emitted"]
    return (emitted[-1] if len(emitted) > len(taken) else None), (taken[-1] if taken else 0)


def _heights(children: dict[int, list[int]], after: int | None) -> dict[int, float]:
    """The row of leaves at which each node stands: leaves one below the other, parents in the middle of theirs.

    The token drawn behind `after` stands as one more child, -1. No recursion: a tree may be a long chain.
    """
    below = {row: list(rows) for row, rows in children.items()}
    if after is not None:
        below[after].append(-1)
        below[-1] = []
    order, stack = [], [0]
    while stack:
        row = stack.pop()
        order.append(row)
        stack += reversed(below[row])
    height: dict[int, float] = {}
    leaves = 0
    for row in order:
        if not below[row]:
            height[row] = float(leaves)
            leaves += 1
    for row in reversed(order):
        if below[row]:
            height[row] = (height[below[row][0]] + height[below[row][-1]]) / 2
    return height


def _edge(name: str, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    (x, y), (u, v) = start, end
    middle = (x + u) / 2
    return _LINE.format(name, x, y, middle, y, middle, v, u, v)


def _weighed(shape: Markup, mass: float | None) -> Markup:
    """A node filled the more the more mass it has; with None, one that is still to come."""
    if mass is None:
        return Markup('<g class="coming">{}</g>').format(shape)
    # The fill lets through what lies behind: no edges, then.
    return Markup('<g class="mass" style="--mass: {}"><g class="under">{}</g>{}</g>').format(
        f"{mass:.4f}", shape, shape
    )


def _circle(name: str, x: float, y: float) -> Markup:
    return Markup('<circle class="{}" cx="{}" cy="{}" r="{}"/>').format(name, x, y, _SIZE if "node" in name else 8)


def _square(name: str, x: float, y: float, width: float = _SIZE, round_: int = 3) -> Markup:
    shape = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="{}"/>')
    return shape.format(name, x - width, y - _SIZE, 2 * width, 2 * _SIZE, round_)


def _pill(name: str, x: float, y: float) -> Markup:
    return _square(name, x, y, 18, _SIZE)


def _hexagon(name: str, x: float, y: float) -> Markup:
    w, h = _SIZE * 1.2, _SIZE
    corners = [(x - w, y), (x - w / 2, y - h), (x + w / 2, y - h), (x + w, y), (x + w / 2, y + h), (x - w / 2, y + h)]
    return Markup('<polygon class="{}" points="{}"/>').format(name, " ".join(f"{a:g},{b:g}" for a, b in corners))


_SHAPES: dict[str, Callable[[str, float, float], Markup]] = {"anchor": _square, "probe": _circle, "filler": _hexagon}
