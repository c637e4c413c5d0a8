"""What a report shows beside the verdict is what the exact tier says, and a round that can happen."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from scipy import stats

from reference.methods import METHODS, PAPER, SLOTTED
from verify import exhibits, gate
from verify.cases import Case, load
from verify.laws import exact_law
from verify.power import ks_detectable, tv_gate_detectable

CASES = [load(path) for path in gate.packaged_cases()]


def packaged(stem: str) -> Case:
    (path,) = [path for path in gate.packaged_cases() if path.stem == stem]
    return load(path)


def test_acceptance_is_that_of_the_exact_law() -> None:
    for case in CASES:
        found = exhibits.acceptance(case)["methods"]
        assert found == {name: float(exact_law(case, METHODS[name])[0].accepted) for name in PAPER}, case.name


def test_at_the_root_no_method_exceeds_its_bound_and_point_masses_attain_it() -> None:
    missed = 0
    for case in CASES:
        root = exhibits.acceptance(case)["root"]
        assert root.keys() == set(PAPER)
        for name, values in root.items():
            assert values["accepted"] <= values["bound"] + 1e-12, (case.name, name)
            missed += values["accepted"] < values["bound"] - 1e-12
        assert root["topk"]["accepted"] == pytest.approx(root["topk"]["bound"], abs=1e-12), case.name
    assert missed > 0


def test_at_the_root_the_counterexample_gives_its_known_fractions() -> None:
    root = exhibits.acceptance(packaged("one_node_with_fillers"))["root"]
    assert root["rheo"] == {"accepted": float(Fraction(87, 88)), "bound": 1.0}
    assert root["rrsw"] == {"accepted": 1.0, "bound": 1.0}


def test_methods_with_too_many_trees_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhibits, "_CLASSES", 2)
    found = exhibits.acceptance(packaged("ties"))
    assert found["methods"].keys() == found["root"].keys() == {"topk"}


def test_curves_of_power_are_the_samples_that_find_the_discrepancy() -> None:
    curves = {(curve["test"], curve["cells"]): curve["points"] for curve in exhibits.power_curves(1e-9, 1e-6)}
    rejects_above = stats.chi2.isf(1e-9, 63)
    for samples, size in curves["chi-square", 64]:
        assert stats.ncx2.cdf(rejects_above, 63, samples * (2 * size) ** 2) == pytest.approx(1e-6, rel=1e-3)
    for samples, size in curves["total variation", 64]:
        assert tv_gate_detectable(samples, 1e-9, 1e-6, 64) == pytest.approx(size, rel=1e-3)
    for samples, size in curves["Kolmogorov", None]:
        assert ks_detectable(samples, 1e-9, 1e-6) == pytest.approx(size, rel=1e-3)


def test_an_example_is_a_round_that_can_happen() -> None:
    kinds = set()
    for case in CASES:
        for method in SLOTTED:
            shown = exhibits.example(case, method)
            nodes = {node["row"]: node for node in shown["nodes"]}
            assert list(nodes) == list(range(1, len(nodes) + 1))
            end, path = 0, list[int]()
            for node in shown["nodes"]:
                assert node["parent"] < node["row"]
                assert node["depth"] == 1 + (nodes[node["parent"]]["depth"] if node["parent"] else 0)
                kinds.add(node["kind"])
                if node["accepted"]:
                    assert node["parent"] == end
                    end, path = node["row"], [*path, node["token"]]
            assert shown["emitted"][:-1] == path
            below = [node["token"] for node in shown["nodes"] if node["parent"] == end]
            assert shown["emitted"][-1] not in below
            stops = exact_law(case, METHODS[method])[0].stops
            assert stops[tuple(shown["emitted"])] > 0
            assert exhibits.example(case, method) == shown
    assert kinds == {"anchor", "probe", "filler"}


def test_an_example_shows_an_accepted_probe_where_there_is_one() -> None:
    shown = exhibits.example(packaged("humaneval-12"))
    assert shown["seed"] > 0
    assert any(node["kind"] == "probe" and node["accepted"] for node in shown["nodes"])
    nothing_accepted = exhibits.example(packaged("disjoint"))
    assert nothing_accepted["seed"] == 0


def test_a_sampler_that_raises_does_not_take_the_run_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("index out of bounds")

    monkeypatch.setitem(METHODS, "rheo", replace(METHODS["rheo"], growth=broken))  # type: ignore[arg-type]
    assert exhibits.exhibits([packaged("ties")]).keys() == {"power"}


def test_every_section_is_there_for_a_sound_sampler() -> None:
    assert exhibits.exhibits([packaged("ties")]).keys() == {"acceptance", "power", "example"}
    assert exhibits.exhibits([]).keys() == {"power"}
