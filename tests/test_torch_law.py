"""The torch sampler, driven through every class and both ends of every cell, has the target's law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from torch import Tensor

from reference.methods import METHODS, SLOTTED
from rheo import growths, methods
from rheo.config import Config
from rheo.rules import probe_first
from rheo.rules.children import Children
from tests.conftest import SHARED_CASES
from verify.boundaries import locate, probe_boundaries
from verify.cases import Case, load
from verify.cells import walk
from verify.gate import packaged_cases
from verify.judgement import judge_reference, judge_torch
from verify.laws import classes_of, draft_of, target_of
from verify.player import Player
from verify.precision import PRECISIONS
from verify.random_toys import KINDS, random_toy
from verify.torch_law import class_of, measure, play_trials, seen_draft, trials_of
from verify.toys import Table, Toy

pytestmark = pytest.mark.exact

FILES = [*packaged_cases(), *SHARED_CASES]
RANDOM = [
    Case(
        f"{kind}-{number}",
        random_toy(number, 2 + number % 5, 2, kind),
        Config(anchors, slots, beam, depth, budget, support, temperature),
    )
    for number, (anchors, slots, beam, depth, budget, support, temperature) in enumerate(
        [
            (0, 1, 1, 2, 2, None, Fraction(1)),
            (0, 4, 3, 2, 9, None, Fraction(1, 2)),
            (1, 2, 2, 3, 5, None, Fraction(1)),
            (1, 4, 2, 2, 6, 4, Fraction(1, 3)),
            (2, 3, 3, 2, 7, None, Fraction(1)),
            (3, 4, 2, 2, 5, None, Fraction(0)),
            (0, 3, 2, 2, 4, 2, Fraction(3, 2)),
            (2, 4, 1, 3, 6, 3, Fraction(1)),
        ]
    )
    for kind in (KINDS[number % len(KINDS)], "ties", "zeros")
]


@pytest.mark.parametrize("case", [*map(load, FILES), *RANDOM], ids=lambda case: Path(case.name).stem)
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_measured_law_is_the_targets(case: Case, dtype: str) -> None:
    for method in SLOTTED:
        reference, measured = judge_reference(case, method), judge_torch(case, method, dtype)
        assert measured.faults == []
        assert measured.tv <= PRECISIONS[dtype].lossless
        assert measured.posterior_ok == reference.posterior_ok
        if dtype == "float64":
            assert measured.classes == reference.classes
            assert measured.accepted == pytest.approx(float(reference.accepted), abs=1e-9)


def test_float64_scores_rank_like_fractions_on_every_case() -> None:
    """Ties in exact arithmetic must stay ties in floats, or the trees differ."""
    for case in [*map(load, FILES), *RANDOM]:
        for name in ("rheo", "topk"):
            trees = [
                {
                    tuple((n.path, n.token) for n in c.result.nodes)
                    for c in classes_of(draft, case.config, METHODS[name])
                }
                for draft in (draft_of(case), seen_draft(case, torch.float64))
            ]
            assert trees[0] == trees[1]


# Faults of one line each, put into the torch sampler; every one must be seen on some packaged case.


def accepts_at_most(p: Tensor, children: Children, coin: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    drawn = children.tail == children.probe
    law = torch.where(drawn, children.law, 0.0).sum(-1, keepdim=True)
    mass = torch.where(drawn, p.gather(-1, children.tail), 0.0).sum(-1, keepdim=True, dtype=torch.float64)
    return coin.unsqueeze(-1) <= scale * mass / law


def unclamped(p: Tensor, tokens: Tensor, law: Tensor) -> Tensor:
    return p.scatter(-1, tokens, (p.gather(-1, tokens).double() - law).abs().to(p.dtype))


def slightly_eager(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    return probe_first.single_draw(p, children, coin * 0.999)


def tail_not_renormalised(draft: object, config: Config) -> object:
    plan = growths.GROWTHS["rheo"](draft, config)  # type: ignore[arg-type]
    return replace(plan, tail_law=draft.q[..., plan.anchors :])  # type: ignore[attr-defined]


def true_score(draft: object, config: Config) -> object:
    plan = growths.GROWTHS["rheo"](draft, config)  # type: ignore[arg-type]
    return replace(plan, proxy=plan.proxy * 0.9)


def seen(faulty: methods.Method, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setitem(methods.METHODS, "rheo", faulty)
    cases = [load(path) for path in packaged_cases() if path.parent.name == "toys"]
    for case in cases:
        judged = judge_torch(case, "rheo")
        if not judged.lossless:
            return True
    return False


def test_accepting_on_at_most_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_first, "accepts", accepts_at_most)
    assert seen(methods.METHODS["rheo"], monkeypatch)


def test_a_residual_without_its_clamp_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_first, "residual", unclamped)
    assert seen(methods.METHODS["rheo"], monkeypatch)


@pytest.mark.parametrize(
    "faulty",
    [
        methods.Method(growths.GROWTHS["rheo"], slightly_eager),
        methods.Method(tail_not_renormalised, probe_first.single_draw),  # type: ignore[arg-type]
        methods.Method(true_score, probe_first.single_draw),  # type: ignore[arg-type]
    ],
    ids=["coin off by a thousandth", "q in place of the tail's law", "another score for the probe"],
)
def test_a_faulty_method_is_seen(faulty: methods.Method, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(faulty, monkeypatch)


def test_the_right_method_passes_where_the_faulty_ones_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not seen(methods.METHODS["rheo"], monkeypatch)


def test_boundaries_are_located_to_the_dtypes_own_rounding() -> None:
    case = load(packaged_cases()[-1])
    for dtype, bound in (("float64", 1e-15), ("float32", 1e-6)):
        measured = measure(case, "rheo", PRECISIONS[dtype])
        assert measured.rounds > 0
        assert measured.boundary_error < bound


def test_a_trial_with_another_outcome_is_a_fault() -> None:
    case = load(packaged_cases()[-1])
    player = Player(case, methods.METHODS["rheo"], torch.float64)
    (outcome, *_) = classes_of(seen_draft(case, torch.float64), case.config, METHODS["rheo"])
    each = class_of(outcome, case, METHODS["rheo"].growth)
    stop = next(iter(walk(each.tree, target_of(case), METHODS["rheo"].rule, {})))
    right = list(trials_of(each, stop, stop.turns[0], case, PRECISIONS["float64"]))
    assert play_trials(player, right) == []
    wrong_token = (*right[0].tokens[:-1], right[0].tokens[-1] + 1)
    assert len(play_trials(player, [replace(right[0], tokens=wrong_token)])) == 1
    assert len(play_trials(player, [replace(right[0], drafted=not right[0].drafted)])) == 1
    smaller = replace(each.tree, nodes=each.tree.nodes[:-1])
    assert len(play_trials(player, [replace(right[0], tree=smaller)])) == 1


def test_a_boundary_elsewhere_is_a_fault() -> None:
    case = load(packaged_cases()[-1])
    player = Player(case, methods.METHODS["rheo"], torch.float64)
    (outcome, *_) = classes_of(seen_draft(case, torch.float64), case.config, METHODS["rheo"])
    right = dict(probe_boundaries(class_of(outcome, case, METHODS["rheo"].growth), case))
    assert right
    located, faults = locate(player, right, PRECISIONS["float64"])
    assert faults == []
    key = next(iter(right))
    assert located[key] == pytest.approx(float(right[key].at), abs=1e-15)
    moved = {key: replace(right[key], at=right[key].at + Fraction(1, 10**6))}
    assert len(locate(player, moved, PRECISIONS["float64"])[1]) == 1


@pytest.mark.parametrize(
    ("weights", "temperature"),
    [
        ((995, 3, 2), Fraction(1, 5)),
        ((999_996, 3, 1), Fraction(1, 3)),
        ((90, 3, 1), Fraction(1, 10)),
        ((10**18, 1), Fraction(1)),
    ],
)
def test_cells_narrower_than_rounding_raise_no_false_alarm(weights: tuple[int, ...], temperature: Fraction) -> None:
    vocab = len(weights)
    toy = Toy(vocab, Table(weights, {}), Table(tuple(reversed(weights)), {}))
    case = Case("narrow", toy, Config(0, 2, 1, 2, 4, None, temperature))
    for method in SLOTTED:
        for dtype in PRECISIONS:
            assert judge_torch(case, method, dtype).faults == []


def test_what_lies_behind_narrow_cells_is_inconclusive_where_it_weighs_more_than_the_tolerance() -> None:
    near = Toy(2, Table((1, 1), {}), Table((999_999, 1), {}))
    case = Case("narrow", near, Config(0, 2, 2, 3, 6, None, Fraction(1)))
    measured = measure(case, "rheo", PRECISIONS["float32"])
    assert measured.faults == []
    tight = replace(PRECISIONS["float32"], noise=1e-3)
    assert measure(case, "rheo", tight).assumed > measured.assumed
