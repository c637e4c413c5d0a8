"""The page of the two ideas: every step's masses are what the theorem says, and the page shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import lazy
from reference.distributions import exact
from reference.methods import METHODS
from reference.rules import TreeRule, transport
from reference.rules.children import acceptance
from reference.tree import SlotPath, Tree
from tests.conftest import Rheo
from verify import explanation
from verify.cases import Case, load
from verify.counterexamples import counterexample
from verify.laws import compose, draft_of, exact_law, exact_stops, target_of

CASES = [load(explanation.WORKED), counterexample("whole_tree_full_support"), counterexample("transport_behind")]


def numbers(values: list[str]) -> Any:
    return exact([Fraction(value) for value in values])


def tree_of(case: Case) -> Tree:
    return lazy.grow(draft_of(case), case.config, METHODS["rheo"].growth, explanation.likeliest)


@pytest.fixture(scope="module")
def shown() -> Any:
    return explanation.explanation()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_masses_of_every_step_sum_to_one_and_are_those_of_the_densities(case: Case) -> None:
    steps = explanation.explanation(case)["steps"]
    assert [step["node"] for step in steps] == list(range(len(tree_of(case).nodes) + 1))
    assert numbers(steps[0]["densities"][0]).tolist() == target_of(case)(()).tolist()
    for step in steps:
        assert len(step["masses"]) == len(step["densities"]) == step["node"] + 1
        assert sum(map(Fraction, step["masses"])) == 1
        assert [numbers(d).sum() for d in step["densities"]] == list(map(Fraction, step["masses"]))
        assert step["tv"] == "0"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_step_moves_what_it_says(case: Case) -> None:
    nodes = explanation.explanation(case)["growth"]["paper"]["nodes"]
    steps = explanation.explanation(case)["steps"]
    tree, target_at = tree_of(case), target_of(case)
    for before, after in pairwise(steps):
        node, moved = tree.nodes[after["node"] - 1], after["moved"]
        parent = nodes[after["node"] - 1]["parent"]
        scale, o = Fraction(moved["scale"]), numbers(moved["o"])
        assert o.sum() == Fraction(moved["M"])
        for row, density in enumerate(before["densities"]):
            rest = numbers(density) - (o if row == parent else 0)
            assert (scale * rest).tolist() == numbers(after["densities"][row]).tolist()
        new = Fraction(moved["a"]) * target_at(node.tokens)
        assert numbers(after["densities"][-1]).tolist() == new.tolist()
        if node.kind != "probe":
            assert scale == 1
            assert moved["a"] == moved["M"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_averaged_over_what_a_probe_could_be_a_step_only_moves_what_it_covers(case: Case) -> None:
    tree, target_at = tree_of(case), target_of(case)
    probes = 0
    for count, node in enumerate(tree.nodes, start=1):
        if node.kind != "probe":
            continue
        before = transport.stops(replace(tree, nodes=tree.nodes[: count - 1]), target_at)
        parent = node.path[:-1]
        law = tree.plans[parent].law_over(case.toy.vocab)
        o = np.minimum(law, before[parent])
        mean = {path: 0 * density for path, density in before.items()}
        for token in np.flatnonzero(law).tolist():
            other = replace(node, tokens=(*node.tokens[:-1], token))
            after = transport.stops(replace(tree, nodes=(*tree.nodes[: count - 1], other)), target_at)
            assert (law[token] * after[node.path]).tolist() == (o[token] * target_at(other.tokens)).tolist()
            for path in mean:
                mean[path] = mean[path] + law[token] * after[path]
        for path, density in before.items():
            assert mean[path].tolist() == (density - (o if path == parent else 0)).tolist()
        probes += 1
    assert probes > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tau_is_that_of_the_exact_tier_given_the_tree_and_on_average(case: Case) -> None:
    found = explanation.explanation(case)
    for name, method in (("probe-first", "rheo"), ("transport", "rheo-transport")):
        law = compose([(1, tree_of(case))], exact_stops(target_of(case), METHODS[method].rule))
        assert Fraction(found["given_tree"][name]) == law.accepted + 1
    for name, tau in found["averaged"].items():
        assert Fraction(tau) == exact_law(case, METHODS[name])[0].accepted + 1


@pytest.mark.parametrize("fault", ["nothing subtracted", "nothing scaled"])
def test_a_wrong_rule_is_seen_in_the_steps(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(tree: Tree, target_at: Any) -> Any:
        densities: dict[SlotPath, Any] = {(): target_at(())}
        for node in tree.nodes:
            density = densities[node.path[:-1]]
            law = transport.proposal(tree, node, density)
            o, a = np.minimum(law, density), acceptance(density, node.token, law)
            if fault == "nothing scaled":
                densities[node.path[:-1]] = density - o
            else:
                densities = {path: (1 - a) / (1 - o.sum()) * each for path, each in densities.items()}
            densities[node.path] = a * target_at(node.tokens)
        return densities

    monkeypatch.setattr(transport, "stops", wrong)
    monkeypatch.setitem(METHODS, "rheo-transport", replace(METHODS["rheo-transport"], rule=TreeRule(wrong)))
    steps = explanation.explanation()["steps"]
    whole = [sum(map(Fraction, step["masses"])) == 1 for step in steps]
    lossless = [step["tv"] == "0" for step in steps]
    if fault == "nothing scaled":  # which is right on average alone: given the tree, the masses are no law
        assert whole == [True, True, False, False, False, False]
    else:
        assert lossless == [True, False, False, False, False, False]


def test_the_packaged_case_shows_both_ideas(shown: Any) -> None:
    paper, calibrated = shown["growth"]["paper"], shown["growth"]["calibrated"]
    assert [slot["kind"] for slot in paper["slots"]] == ["anchor", "probe", "filler"]
    assert [slot["score"] for slot in paper["slots"]] == ["2/5", "2/5", "3/20"]
    assert [slot["score"] for slot in calibrated["slots"]] == ["2/5", "12/25", "3/40"]
    assert [slot["row"] for slot in paper["slots"]] == [1, 2, 5]
    assert [slot["row"] for slot in calibrated["slots"]] == [2, 1, None]
    assert any(Fraction(step["moved"]["scale"]) > 1 for step in shown["steps"][1:])
    assert any(Fraction(step["moved"]["scale"]) < 1 for step in shown["steps"][1:])
    taus = list(map(Fraction, shown["averaged"].values()))
    assert taus == sorted(set(taus))  # each idea adds something
    assert taus[0] == Fraction(253, 120)
    assert taus[-1] == Fraction(115, 48)
    assert Fraction(shown["given_tree"]["transport"]) > Fraction(shown["given_tree"]["probe-first"])


@pytest.mark.parametrize("growth", ["paper", "calibrated"])
def test_slots_are_kept_that_the_tree_holds(shown: Any, growth: str) -> None:
    found = shown["growth"][growth]
    below = {node["row"]: (node["kind"], node["token"]) for node in found["nodes"] if node["parent"] == 0}
    assert {slot["row"]: (slot["kind"], slot["token"]) for slot in found["slots"] if slot["row"]} == below


def test_the_page_shows_every_step_and_loads_nothing(rheo: Rheo, shown: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert rheo("report", "--explain", "--output", path) == (0, f"{path}\n", "")
    page = path.read_text()
    assert page.count('<svg class="tree" viewBox="0') == 2 + 1 + 2 * 5
    for step in shown["steps"]:
        assert f'id="step-{step["node"]}"' in page
        for density in step["densities"]:
            assert all(f">{value}</td>" in page for value in density)
    for tau in (*shown["averaged"].values(), *shown["given_tree"].values()):
        assert f">{tau}</td>" in page
    masses = re.findall(r"--mass: ([0-9.]+)", page)
    taken = [step["node"] for step in (*shown["steps"], *shown["steps"][:-1])]  # before and after
    assert len(masses) == sum(count + 1 for count in taken)
    assert page.count('class="coming"') == sum(5 - count for count in taken)
    assert "<script" not in page
    assert "://" not in page
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'(?:href="#|aria-labelledby=")([^"]*)"', page)) <= set(ids)


@pytest.mark.parametrize("arguments", [(), ("--explain", __file__)])
def test_a_page_is_either_of_a_run_or_of_the_ideas(rheo: Rheo, arguments: tuple[str, ...]) -> None:
    assert rheo("report", *arguments) == (2, "", "rheo: give either RUN.json or --explain\n")
