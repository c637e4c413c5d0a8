"""A run on models: its words, wherever they are shown, and its section of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.blocks import (
    Block,
    Cell,
    Remark,
    Section,
    Table,
    Tone,
    badge_of,
    counted,
    number,
    plain,
    status_cell,
    tidy,
)

Json = dict[str, Any]


def section(run: Json) -> Section:
    """Methods on a pair of models: what was checked without a sample, what was tested, and the control."""
    methods, most, control = run["methods"], run["most"], run["control"]
    lead = (
        "Tokens that a method emitted, judged by the probabilities of an independent forward that knows no tree and no "
        "cache. Greedy decoding and the logits from caches are compared besides, without a sample."
    )
    remarks = [Remark(f"{each['method']}: {line}", "bad") for each in methods for line in faults(each, most)]
    blocks: list[Block] = [_methods(methods), *remarks]
    blocks.append(Remark("".join(told(control, run["tokens"], run["beta"])), tone_of_control(control)))
    if most is None:
        blocks.append(Remark(rounding(run["dtype"]), "warn"))
    if any(method.get("tests") for method in methods):
        blocks.append(_tests(methods))
    found = {"found": "lossless", "not found": "control_passed"}.get(control["status"], "inconclusive")
    badge = badge_of([method["status"] for method in methods])
    tone = badge_of([*(method["status"] for method in methods), found]).tone
    return Section("models", "On models", lead, blocks, Cell(badge.text, tone))


def sentence(run: Json) -> str:
    """What the verdict says of the methods, with alpha, beta and what is found at them."""
    methods, dtype = run["methods"], run["dtype"]
    rates = f"a right sampler is called lossy with probability at most {plain(run['alpha'])}"
    if run["most"] is None:
        rates = f"{dtype} rounds, and the tests see that too"
    if run["verdict"] == "lossless":
        tokens = counted(min((method.get("tokens", 0) for method in methods), default=0), "token")
        found = [distance for distance in map(finds, methods) if distance is not None]
        missed = f", a distance of {plain(max(found), 2)} missed with at most {plain(run['beta'])}" if found else ""
        return f"No departure from the target was found in {tokens} of {_each(methods)} ({rates}{missed})."
    if run["verdict"] == "lossy":
        lossy = ", ".join(method["method"] for method in methods if method["status"] == "lossy") or "a method"
        return f"What {lossy} emits departs from the target ({rates})."
    if run["verdict"] == "control_passed":
        return "A sampler with a broken cache was not found: nothing else this run says can be relied on."
    return "Neither lossless nor lossy is shown: it was stopped, or too little was sampled."


def _each(methods: Sequence[Json]) -> str:
    return "one method" if len(methods) == 1 else f"each of {counted(len(methods), 'method')}"


def facts(run: Json) -> list[tuple[str, str]]:
    """The run in numbers."""
    said = [(key, run[key]) for key in ("target", "draft", "dtype")]
    numbers = {"temperature": "temperature", "tokens": "tokens a method", "alpha": "alpha", "beta": "beta"}
    said += [(name, plain(run[key])) for key, name in numbers.items()]
    return [*said, ("seconds", plain(run["seconds"]))] if "seconds" in run else said


def faults(method: Json, most: Json | None) -> list[str]:
    """What speaks against a method. most: what may differ by rounding, None where the dtype rounds more."""
    lines = [
        f"{test['test']}: p-value {plain(test['p_value'], 2)} of {counted(test.get('tokens', 0), 'token')}"
        for test in method.get("tests", [])
        if test["rejects"]
    ]
    if method.get("impossible"):
        lines.append(f"{counted(method['impossible'], 'token')} of probability 0")
    checks = method.get("checks")
    if checks and most and checks["margin"] > most["margin"]:
        margin = plain(checks["margin"], 2)
        lines.append(f"at T = 0 a token whose logit is {margin} below the largest of a full forward")
    if checks and most and checks["tv"] > most["tv"]:
        lines.append(f"logits from caches are a total variation of {plain(checks['tv'], 2)} away from a full forward's")
    return lines


def told(control: Json, tokens: int, beta: float) -> tuple[str, str]:
    """What became of the control: the tale, and its outcome behind it ("" while it is open).

    tokens: of a method, the most that the control may take.
    """
    name = f"control, a cache with a {control['fault']} under {control['method']}"
    if control["pilot"] is None or "distance" not in control:
        return f"{name}: not reached", ""
    by = f"by {control.get('order', 'some order')}"
    pilot = f"D = {plain(control['distance'], 2)} {by} in {counted(control['pilot'], 'token')}"
    if control.get("tokens") is None:
        return f"{name}: {pilot}, too few to say how many would do", ""
    needed = f"{pilot}, so that {plain(control['tokens'])} others miss it with probability <= {plain(beta)}"
    if control["status"] == "open":
        enough = control["tokens"] <= tokens
        return f"{name}: {needed}; {'stopped before its end' if enough else 'that many --tokens would do'}", ""
    outcome = "NOT FOUND" if control["status"] == "not found" else control["status"]
    return f"{name}: {needed}: ", f"{outcome}, p-value {plain(control.get('p_value'), 2)}"


def tone_of_control(control: Json) -> Tone:
    """A control that was found is right, one that was not is worse than a lossy method."""
    tones: dict[str, Tone] = {"found": "ok", "not found": "bad"}
    return "warn" if control["pilot"] is None else tones.get(control["status"], "warn")


def rounding(dtype: str) -> str:
    """Of a dtype that is no proof."""
    return f"{dtype} rounds: greedy decoding and caches are shown, not judged; the tests see rounding too"


def smallest(method: Json) -> float | None:
    """The smallest p-value of a method's tests."""
    return min((test["p_value"] for test in method.get("tests", [])), default=None)


def finds(method: Json) -> float | None:
    """The distance that its Kolmogorov tests find."""
    found = [test.get("detectable") for test in method.get("tests", []) if test["test"].startswith("Kolmogorov")]
    return found[0] if found else None


def differing(method: Json) -> str:
    """Of the tokens at T = 0, how many are not the likeliest of a full forward."""
    checks = method.get("checks")
    return "-" if checks is None else f"{checks['differing']} of {checks['tokens']}"


def distance(method: Json) -> str:
    """The largest total variation between the law from caches and that of a full forward."""
    checks = method.get("checks")
    return "-" if checks is None else tidy(f"{checks['tv']:.1e}")


def _methods(methods: Sequence[Json]) -> Table:
    rows = [
        [
            Cell(method["method"]), status_cell(method["status"]), number(method.get("tokens")),
            number(method.get("requests")), Cell(differing(method), number=True), Cell(distance(method), number=True),
            number(smallest(method), 2), number(finds(method), 2),
        ]
        for method in methods
    ]  # fmt: skip
    heads = ["method", "verdict", "tokens", "requests", "greedy differs", "cache TV", "smallest p", "finds D"]
    return Table("Methods, and the distance of laws that their tokens find (“finds”)", heads, rows)


def _tests(methods: Sequence[Json]) -> Table:
    rows = [
        [
            Cell(method["method"]), Cell(test["test"]), number(test.get("tokens")), number(test.get("alpha")),
            number(test["p_value"]), Cell("rejected", "bad") if test["rejects"] else Cell("passed", "ok"),
        ]
        for method in methods for test in method.get("tests", [])
    ]  # fmt: skip
    return Table(f"All tests ({len(rows)})", ["method", "test", "tokens", "alpha", "p-value", "outcome"], rows, True)
