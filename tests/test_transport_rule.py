"""Tree-wide transport and calibrated growth: lossless in Fractions, torch like the reference, and what is gained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.distributions import Array, Number, exact
from reference.growths import GROWTHS
from reference.methods import METHODS, PAPER, Method
from reference.rules import Stops, TreeRule, transport
from reference.rules.children import acceptance
from reference.tree import SlotPath, TargetAt, Tree
from reference.truncation import truncate
from rheo.calibration import Calibration, from_json, line, scaled, to_json
from rheo.config import Config
from rheo.decoding import Sampler
from rheo.growth import grow
from rheo.methods import METHODS as TORCH
from rheo.processors import temperature
from rheo.rules.stops import expected_accepted
from rheo.rules.transport import stops as torch_stops
from rheo.uniforms import draw_uniforms
from rheo.verification import verify
from tests.conftest import SHARED_CASES
from verify.cases import Case, CaseError, document, dumps, load, parse
from verify.counterexamples import counterexample
from verify.gate import packaged_cases
from verify.judgement import judge_torch
from verify.laws import classes_of, draft_of, exact_law, target_of, total_variation
from verify.parity import boundary_rows, toy_disagreements
from verify.precision import PRECISIONS
from verify.random_toys import KINDS, random_toy
from verify.tiers import cases as battery
from verify.torch_toys import ToyPair, automaton
from verify.toys import Table, Toy
from verify.transport import compare

pytestmark = pytest.mark.exact

NEW = ("rheo-transport", "calibrated", "calibrated-transport")
ALL = (*NEW, "adaptive-transport")
SHAPES = [(1, 3, 2, 2, 5), (0, 2, 2, 2, 4), (1, 2, 3, 2, 4), (2, 4, 2, 2, 6), (0, 3, 2, 3, 6)]
RANDOM = [
    Case(f"{kind}-{i}", random_toy(i, 3, 2, kind), Config(*shape, None, Fraction(1, 1 + i % 2)))
    for i, shape in enumerate(SHAPES)
    for kind in KINDS
]


def rational(path: Path) -> Case:
    case = load(path)
    return case if case.rational else replace(case, config=replace(case.config, temperature=Fraction(1)))


def tv(case: Case, method: Method) -> Number:
    return total_variation(exact_law(case, method)[0], target_of(case), case.config.depth + 1)


@pytest.mark.parametrize("path", [*packaged_cases(), *SHARED_CASES], ids=lambda path: path.stem)
def test_new_methods_are_lossless_in_fractions_on_every_case_file(
    path: Path, count_laws: Callable[[int], None]
) -> None:
    case = rational(path)
    for method in ALL:
        assert tv(case, METHODS[method]) == 0, method
    count_laws(len(ALL))


@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case.name)
def test_new_methods_are_lossless_in_fractions_on_toys_of_every_kind(
    case: Case, count_laws: Callable[[int], None]
) -> None:
    for method in ALL:
        assert tv(case, METHODS[method]) == 0, method
    count_laws(len(ALL))


@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case.name)
def test_stop_densities_are_a_law_and_count_the_accepted_drafts(case: Case) -> None:
    law, classes = exact_law(case, METHODS["rheo-transport"])
    accepted: Number = 0
    for each in classes:
        found = transport.stops(each.result, target_of(case))
        assert list(found) == [(), *(node.path for node in each.result.nodes)]
        assert sum(density.sum() for density in found.values()) == 1
        assert all((density >= 0).all() for density in found.values())
        accepted += each.mass * sum(len(path) * density.sum() for path, density in found.items())
    assert accepted == law.accepted


# What breaks it


def depth_first(tree: Tree, target_at: TargetAt) -> dict[SlotPath, Array]:
    return transport.stops(Tree(tuple(sorted(tree.nodes, key=lambda node: node.path)), tree.plans), target_at)


def wrong(scale_all: bool, take: bool) -> Stops:
    """Transport with its scale at the parent alone, or with the overlap left where it was."""

    def stops(tree: Tree, target_at: TargetAt) -> dict[SlotPath, Array]:
        densities: dict[SlotPath, Array] = {(): target_at(())}
        for node in tree.nodes:
            at = node.path[:-1]
            law = transport.proposal(tree, node, densities[at])
            overlap = np.minimum(law, densities[at])
            covered, accepted = overlap.sum(), acceptance(densities[at], node.token, law)
            if take or node.kind != "probe":
                densities[at] = densities[at] - overlap
            rest = (1 - accepted) / (1 - covered) if covered < 1 else 0 * covered
            for path in densities if scale_all else (at,):
                densities[path] = rest * densities[path]
            densities[node.path] = accepted * target_at(node.tokens)
        total: Number = sum(density.sum() for density in densities.values())
        return {path: density / total for path, density in densities.items()} if total > 0 else {(): target_at(())}

    return stops


@pytest.mark.parametrize(
    ("form", "lossy"),
    [(wrong(True, True), False), (wrong(False, True), True), (wrong(True, False), True), (depth_first, True)],
    ids=["as it is", "scale at the parent alone", "overlap not subtracted", "depth first"],
)
def test_only_the_right_order_scale_and_subtraction_are_lossless(form: Stops, lossy: bool) -> None:
    method = Method(METHODS["rheo"].growth, TreeRule(form))
    assert any(tv(case, method) > 0 for case in battery()) == lossy


def test_depth_first_shows_on_the_toy_that_was_made_for_it_and_nowhere_else() -> None:
    method = Method(METHODS["rheo"].growth, TreeRule(depth_first))
    found = {case.name: tv(case, method) for case in battery()}
    assert {name: value for name, value in found.items() if value} == {"branches": Fraction(1, 4)}


# On a chain


def block(case: Case, tokens: tuple[int, ...]) -> dict[tuple[int, ...], Number]:
    """Block verification of drafted tokens (Sun et al., 2024), by its own formulas: what is emitted."""
    target_at, draft_at = target_of(case), draft_of(case)
    p = [target_at(tokens[:i]) for i in range(len(tokens) + 1)]
    q = [draft_at(tokens[:i]) / draft_at(tokens[:i]).sum() for i in range(len(tokens))]
    reach: list[Number] = [Fraction(1)]
    for i, token in enumerate(tokens):
        reach.append(min(Fraction(1), reach[i] * p[i][token] / q[i][token]))
    left: Number = Fraction(1)
    law: dict[tuple[int, ...], Number] = {}
    for i in range(len(tokens), -1, -1):
        rest = p[i] if i == len(tokens) else np.maximum(reach[i] * p[i] - q[i], 0 * p[i])
        room = rest.sum() + 1 - reach[i]
        accepted = reach[i] if i == len(tokens) else rest.sum() / room if room else Fraction(1)
        if left * accepted > 0:
            for token, share in enumerate(rest / rest.sum()):
                law[*tokens[:i], token] = left * accepted * share
        left *= 1 - accepted
    return {sequence: mass for sequence, mass in law.items() if mass > 0}


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_chain_transport_is_block_verification(kind: str) -> None:
    case = Case(kind, random_toy(7, 3, 2, kind), Config(0, 1, 1, 3, 3, None))
    classes = classes_of(draft_of(case), case.config, METHODS["rheo-transport"])
    assert classes
    for each in classes:
        found: dict[tuple[int, ...], Number] = {}
        tokens = each.result.nodes[-1].tokens
        for path, density in transport.stops(each.result, target_of(case)).items():
            found.update({(*tokens[: len(path)], token): mass for token, mass in enumerate(density) if mass > 0})
        assert found == block(case, tokens)


# Gain


def test_transport_may_accept_less_than_probe_first_and_the_smallest_toy_shows_it() -> None:
    """The likelier probe under a likely probe is refused, and takes its parent's branch with it."""
    case = counterexample("transport_behind")
    assert case.toy.vocab == 2
    found = compare([case], METHODS["rheo"], METHODS["rheo-transport"])
    assert (found.wins, found.greatest_gain) == (1, Fraction(1, 9))


def test_over_random_toys_transport_usually_accepts_more() -> None:
    cases = [Case(str(i), random_toy(i, 3, 1, "any"), Config(0, 2, 2, 2, 4, None)) for i in range(80)]
    found = compare(cases, METHODS["rheo-transport"], METHODS["rheo"])
    assert found.wins > 10 * found.losses
    assert found.mean > 0


# Torch


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("case", [*battery(), *RANDOM[::3]], ids=lambda case: case.name)
def test_torch_takes_the_same_rounds_as_the_reference(case: Case, dtype: str) -> None:
    random = np.random.default_rng(3).random((60, case.config.decisions))
    numbers = np.concatenate([boundary_rows(case.config), random])
    for method in ALL:
        assert toy_disagreements(case, method, PRECISIONS[dtype], numbers) == []


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("case", [*battery(), *RANDOM[::7]], ids=lambda case: case.name)
def test_the_law_of_torch_measured_at_its_cells_is_the_targets(case: Case, dtype: str) -> None:
    for method in ALL:
        judged = judge_torch(case, method, dtype)
        assert judged.lossless, judged.faults
        if dtype == "float64":
            assert judged.accepted == pytest.approx(float(exact_law(case, METHODS[method])[0].accepted), abs=1e-9)


def test_torch_knows_what_it_expects_to_accept() -> None:
    """Averaged over drafted trees it is what the exact law accepts, within five standard errors of 4,096 trees."""
    case = next(case for case in battery() if case.name == "contexts")
    config, n = case.config, 4096
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(n, dtype=torch.int64))
    tree = grow(pair.draft, draw_uniforms(config, range(n)).probe, config, TORCH["rheo-transport"].growth)
    expected = expected_accepted(torch_stops(tree, pair.target(tree)), tree.depths)
    off = float(expected.mean()) - float(exact_law(case, METHODS["rheo-transport"])[0].accepted)
    assert abs(off) < 5 * float(expected.std()) / n**0.5


def test_padding_and_lost_rows_do_not_reach_what_is_emitted() -> None:
    """Rows of nodes that a request does not have may hold anything; a row without tokens is named if drawn from."""
    toy = Toy(2, Table((1, 1), {}), Table((1, 0), {}))
    config = Config(1, 2, 1, 1, 3, None, 1.0)
    pair = ToyPair(automaton(toy, torch.float32), torch.zeros(8, dtype=torch.int64))
    uniforms, method = draw_uniforms(config, range(8)), TORCH["rheo-transport"]
    tree = grow(pair.draft, uniforms.probe, config, method.growth)
    assert not tree.occupied.all()
    logits = pair.target(tree)
    path = verify(tree, logits, uniforms, temperature(1.0), method.rule)
    spoilt = torch.where(torch.nn.functional.pad(tree.occupied, (1, 0), value=True).unsqueeze(-1), logits, torch.nan)
    assert torch.equal(verify(tree, spoilt, uniforms, temperature(1.0), method.rule).tokens, path.tokens)
    with pytest.raises(ValueError, match="request 0, row 1: NaN"):
        verify(tree, logits.index_fill(1, torch.tensor([1]), torch.nan), uniforms, temperature(1.0), method.rule)
    with pytest.raises(ValueError, match=r"row \d: no token is left"):
        verify(tree, logits, uniforms, lambda x: torch.full_like(x, -torch.inf), method.rule)


def test_a_probe_that_covers_everything_leaves_nothing_and_breaks_nothing() -> None:
    """The draft is the target and there are no anchors: the overlap is 1 up to rounding, whatever the probe is."""
    toy = Toy(3, Table((5, 3, 1), {}), Table((5, 3, 1), {}))
    case = Case("equal", toy, Config(0, 1, 1, 3, 3, None))
    assert exact_law(case, METHODS["rheo-transport"])[0].accepted == 3
    pair = ToyPair(automaton(toy, torch.float32), torch.zeros(512, dtype=torch.int64))
    sampler, uniforms = Sampler(case.config, TORCH["rheo-transport"]), draw_uniforms(case.config, range(512))
    tree = grow(pair.draft, uniforms.probe, case.config, sampler.method.growth)
    found = torch_stops(tree, pair.target(tree))
    assert torch.allclose(found.masses.sum(-1), torch.ones(512, dtype=torch.float64))
    assert torch.allclose(found.masses[:, -1], torch.ones(512, dtype=torch.float64), atol=1e-5)


# Calibration


CURVES = Calibration(
    anchor=(((0, 0), (Fraction(1, 2), Fraction(3, 4)), (1, 1)),),
    probe=(line(Fraction(1, 3)), ((0, Fraction(1, 10)), (1, Fraction(9, 10)))),
    filler=(line(Fraction(1, 5)), line(Fraction(2, 5))),
)


def test_slots_are_worth_what_their_curves_say_exactly() -> None:
    draft = truncate(exact([6, 3, 2, 1]), None, depth=0)
    plan = GROWTHS["calibrated"](draft, Config(1, 3, support=None, calibration=CURVES))
    assert plan.anchor_scores.tolist() == [Fraction(3, 4)]
    assert plan.tail_scores.tolist() == [Fraction(1, 20), Fraction(1, 30), Fraction(1, 60)]
    assert plan.proxy == Fraction(1, 6)
    assert {type(x) for x in (*plan.anchor_scores, *plan.tail_scores, plan.proxy)} == {Fraction}
    deeper = GROWTHS["calibrated"](replace(draft, depth=5), Config(1, 3, support=None, calibration=CURVES))
    assert deeper.proxy == Fraction(1, 2)
    assert deeper.tail_scores[0] == Fraction(1, 10)


def test_a_probe_never_ranks_behind_the_best_filler() -> None:
    draft = truncate(exact([6, 3, 2, 1]), None)
    shy = Config(1, 3, support=None, calibration=scaled(Fraction(1, 100), 1))
    assert GROWTHS["calibrated"](draft, shy).proxy == Fraction(1, 4)


@pytest.mark.parametrize("calibration", [CURVES, scaled(1, 1), scaled(0, 0), scaled(Fraction(1, 10), 1)])
def test_any_calibration_is_lossless_and_torch_follows_it(calibration: Calibration) -> None:
    for case in (each for each in battery() if each.name in ("contexts", "branches", "late-probe", "wide")):
        calibrated = replace(case, config=replace(case.config, calibration=calibration))
        numbers = np.random.default_rng(1).random((40, case.config.decisions))
        for method in ("calibrated", "calibrated-transport", "adaptive-transport"):
            assert tv(calibrated, METHODS[method]) == 0
            assert toy_disagreements(calibrated, method, PRECISIONS["float64"], numbers) == []


def test_other_calibrations_grow_other_trees() -> None:
    case = next(each for each in battery() if each.name == "contexts")
    laws = {
        exact_law(replace(case, config=replace(case.config, calibration=x)), METHODS["calibrated"])[0].accepted
        for x in (scaled(1, 1), scaled(0, 0), scaled(0, 1))
    }
    assert len(laws) > 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (3, "must be an object"),
        ({"c": "x"}, "c: must be a number"),
        ({"c": True}, "c: must be a number"),
        ({"c": 2}, "probe: a curve must not fall, nor leave 0..1"),
        ({"lambda": -1}, "filler: a curve must not fall"),
        ({"c": 1, "probe": []}, "must hold c and lambda, or some of"),
        ({"probe": []}, "probe: there is no curve"),
        ({"probe": 3}, "probe: must be a list of curves"),
        ({"probe": [[[0, 0], ["1/2", 1]]]}, "probe: a curve must go from x = 0 to x = 1"),
        ({"probe": [[[0, 1], [1, 0]]]}, "probe: a curve must not fall"),
    ],
)
def test_a_bad_calibration_is_named_in_one_line(value: object, reason: str) -> None:
    case = document(Case("x", Toy(2, Table((1, 1), {}), Table((1, 1), {})), Config(0, 1)))
    case["config"]["calibration"] = value
    with pytest.raises(CaseError) as caught:
        parse(dumps(case), "file.json")
    assert str(caught.value).startswith(f"file.json: config.calibration: {reason}")


def test_a_calibration_survives_being_written_and_read() -> None:
    for calibration in (CURVES, scaled(Fraction(2, 3), 0), Calibration()):
        assert from_json(to_json(calibration)) == calibration
        case = Case("x", Toy(2, Table((1, 1), {}), Table((1, 1), {})), Config(0, 1, calibration=calibration))
        assert parse(dumps(document(case)), "x").config.calibration == calibration
    assert to_json(scaled(Fraction(4, 5), Fraction(1, 2))) == {"c": "4/5", "lambda": "1/2"}


def test_cases_are_tried_with_the_methods_they_name() -> None:
    assert counterexample("transport_behind").methods == (*PAPER, *NEW)
    assert counterexample("whole_tree").methods == PAPER
