"""The sections of acceptance, power, one round, and the audit of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from reports import figures, trees
from reports.blocks import (
    Block,
    Cell,
    Chips,
    Figure,
    Remark,
    Section,
    Table,
    counted,
    distinct,
    fixed,
    number,
    plain,
    status_cell,
    stem,
)

Json = dict[str, Any]

_ROUNDING = 1e-9  # acceptance this close to its bound attains it


def acceptance(run: Json) -> Section | None:
    """What each method accepts, and the most that any lossless rule could accept of its candidates."""
    cases = [case for case in run.get("acceptance", []) if case["methods"]]
    if not cases:
        return None
    methods = distinct(name for case in cases for name in case["methods"])
    label = f"Expected accepted drafts of a round in {counted(len(cases), 'case')} for {', '.join(methods)}"
    caption = "Expected accepted drafts of one round over the whole tree, computed from the output law."
    blocks: list[Figure | Table] = [Figure(label, caption, figures.accepted_drafts(cases, "accepted"))]
    for i, method in enumerate(methods):
        roots = [case["root"][method] for case in cases if method in case.get("root", {})]
        if roots:
            blocks.append(_root_figure(cases, method, roots, i))
    lead = (
        "How much is accepted, and how much could be: at the root, the transport bound is the most that any lossless "
        "rule could accept of the candidates that this method's own trees offer there. It bounds one node, not a tree."
    )
    return Section("acceptance", "Acceptance", lead, [*blocks, _acceptance_table(cases, methods)])


def _root_figure(cases: Sequence[Json], method: str, roots: Sequence[Json], index: int) -> Figure:
    attained = sum(root["bound"] - root["accepted"] <= _ROUNDING for root in roots)
    says = f"{method} attains its transport bound in {attained} of {counted(len(roots), 'case')}"
    least = min(roots, key=lambda root: root["accepted"] - root["bound"])
    if attained < len(roots):
        says += f", and misses it by at most {plain(least['bound'] - least['accepted'])}"
    svg = figures.root_acceptance(cases, method, index, f"root-{index}")
    return Figure(f"Acceptance at the root: {says}", f"At the root: {says}.", svg)


def _acceptance_table(cases: Sequence[Json], methods: Sequence[str]) -> Table:
    rows = []
    for case in cases:
        cells = [Cell(stem(case["case"]))]
        for method in methods:
            root = case.get("root", {}).get(method, {})
            cells += [fixed(case["methods"].get(method)), fixed(root.get("accepted")), fixed(root.get("bound"))]
        rows.append(cells)
    heads = [f"{method}, {what}" for method in methods for what in ("drafts", "root", "bound")]
    return Table("Acceptance in numbers", ["case", *heads], rows, folded=True)


def power(run: Json) -> Section | None:
    """What each test finds with how many samples."""
    curves = [curve for curve in run.get("power", []) if curve["points"]]
    if not curves:
        return None
    subjects = run.get("subjects", [])
    found = [
        (trial["samples"], trial["detectable"])
        for subject in subjects
        for trial in subject.get("trials", [])
        if trial.get("samples") and (trial.get("detectable") or 0) > 0
    ]
    claimed = max((subject["claims"]["tv"] for subject in subjects if "claims" in subject), default=None)
    rates = f"alpha {plain(curves[0]['alpha'])}, beta {plain(curves[0]['beta'])}"
    label = f"Samples against the smallest discrepancy found, for {counted(len(curves), 'test')} at {rates}"
    caption = (
        f"The smallest discrepancy that a number of samples finds at {rates}: a total variation for joint tests, a "
        "Kolmogorov distance for the PIT, which does not bound a total variation."
    )
    figure = Figure(label, caption, figures.power_curves(curves, found, claimed, "power"))
    return Section("power", "Power", "A test is worth what it can find.", [figure])


def example(run: Json) -> Section | None:
    """One round, drawn."""
    shown = run.get("example")
    if not shown:
        return None
    nodes, emitted = shown["nodes"], shown["emitted"]
    taken = [node for node in nodes if node.get("accepted", False)]
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(node["kind"] for node in nodes).items())
    accepted = ", ".join(str(node["token"]) for node in taken) or "none"
    label = f"A draft tree of {counted(len(nodes), 'node')} ({kinds}); accepted: {accepted}; "
    label += f"emitted: {', '.join(map(str, emitted))}"
    caption = "Inside each node its token, below it the score it was ranked by."
    what = [f"accepted {node['kind']}" for node in taken][: len(emitted)]
    what += ["drawn from the target"] * (len(emitted) - len(what))
    blocks: list[Block] = [
        Figure(label, caption, trees.draw(shown), wide=True, legend=trees.legend()),
        Chips("Emitted tokens", [(str(token), said) for token, said in zip(emitted, what, strict=True)]),
        _nodes_table(nodes),
    ]
    method = f" by {shown['method']}" if "method" in shown else ""
    seed = f" with seed {shown['seed']}" if "seed" in shown else ""
    lead = (
        f"A round on {stem(shown['case'])}{method}{seed}: the context has a tree of candidates; verification walks "
        "down from it as long as a child is accepted, and draws one token more where it ends."
    )
    return Section("example", "One round", lead, blocks)


def _nodes_table(nodes: Sequence[Json]) -> Table:
    rows = [
        [
            number(node["row"]), number(node["parent"]), number(node["token"]), Cell(node["kind"]),
            number(node.get("score"), 4), Cell("accepted", "ok") if node.get("accepted", False) else Cell("-"),
        ]
        for node in nodes
    ]  # fmt: skip
    heads = ["row", "parent", "token", "kind", "score", "outcome"]
    return Table("Nodes in the order they were ranked", heads, rows, folded=True)


def audit(run: Json) -> Section | None:
    """The e-process and the PIT over a trace."""
    if run["kind"] != "audit":
        return None
    blocks: list[Figure | Remark | Table] = list(_evidence(run))
    if run.get("tests"):
        blocks.append(_audit_tests(run["tests"]))
    pit = run.get("pit")
    if pit:
        panels = pit if isinstance(pit, dict) else {"p": pit}
        out = sum(figures.outside(bins) for bins in panels.values() if sum(bins))
        label = f"Histogram of the randomised PIT of the trace: {out} of {len(panels)} leave their band"
        caption = "Randomised PIT of all tokens. A right sampler keeps all bins inside the band with probability 99%."
        blocks.append(Figure(label, caption, figures.pit_panels([("trace", panels)], "audit-pit")))
    lead = "An e-process may be looked at after every token: it has one false-alarm rate for its lifetime."
    return Section("audit", "Trace", lead, blocks)


def _audit_tests(tests: Sequence[Json]) -> Table:
    rows = [
        [
            Cell(test["test"]), number(test.get("tokens")), number(test.get("alpha")), number(test["p_value"]),
            number(test.get("detectable")), status_cell("lossy" if test["rejects"] else "lossless"),
        ]
        for test in tests
    ]  # fmt: skip
    heads = ["test", "tokens", "alpha", "p-value", "would find a distance of", "says"]
    return Table("Tests on the randomised PIT", heads, rows)


def _evidence(run: Json) -> Iterator[Remark]:
    """The e-values, and what they would have to reach."""
    values = [("e-value now", run.get("e_value")), ("largest", run.get("peak"))]
    known = [f"{name} {plain(value)}" for name, value in values if value is not None]
    if known:
        own = [test["alpha"] for test in run.get("tests", []) if test["test"] == "e-process" and test.get("alpha")]
        alpha = own[0] if own else run.get("alpha")
        needed = f"; rejects at {plain(round(1 / alpha))}" if alpha else ""
        yield Remark(f"{', '.join(known)}{needed}, after {counted(run.get('tokens', 0), 'token')}.")
    if run.get("impossible"):
        first = f", the first in {run['first_impossible']}" if run.get("first_impossible") else ""
        yield Remark(f"{counted(run['impossible'], 'token')} of probability 0{first}.", "bad")
