"""Adaptive growth: how many anchors a node has, and that no rule that counts on a fixed number takes its trees."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from reference.distributions import exact
from reference.growths import GROWTHS
from reference.methods import METHODS
from reference.truncation import truncate
from rheo.calibration import Calibration, line
from rheo.config import Config
from rheo.growth import grow
from rheo.growths import GROWTHS as TORCH
from rheo.methods import METHODS as TORCH_METHODS
from rheo.processors import temperature
from rheo.rules import RULES
from rheo.tree import ANCHOR, PROBE
from rheo.truncation import truncate as torch_truncate
from rheo.uniforms import draw_uniforms
from rheo.verification import verify
from verify.cases import Case
from verify.laws import classes_of, draft_of
from verify.random_toys import random_toy
from verify.torch_toys import ToyPair, automaton

pytestmark = pytest.mark.exact

WEIGHTS = (6, 3, 2, 1)
CONFIG = Config(slots=4, budget=5, support=None)  # an anchor must be worth 1/11


@pytest.mark.parametrize(
    ("score", "config", "count"),
    [
        (Fraction(1), CONFIG, 3),
        (Fraction(1, 2), CONFIG, 2),
        (Fraction(1, 4), CONFIG, 1),
        (Fraction(1, 6), CONFIG, 0),
        (Fraction(1), replace(CONFIG, slots=3), 2),
        (Fraction(1), replace(CONFIG, slots=1, anchors=0), 0),
        (Fraction(1), replace(CONFIG, slots=9, budget=59), 3),
        (Fraction(1), replace(CONFIG, budget=1), 1),
        (Fraction(1), replace(CONFIG, calibration=Calibration(anchor=(line(Fraction(1, 4)),))), 1),
        (Fraction(1), replace(CONFIG, budget=1, calibration=Calibration(anchor=(line(0),))), 0),
    ],
)
def test_anchors_are_worth_a_node_and_leave_a_slot_and_a_token_to_the_probe(
    score: Fraction, config: Config, count: int
) -> None:
    plan = GROWTHS["adaptive"](truncate(exact(WEIGHTS), None, 0, score), config)
    fixed = GROWTHS["calibrated"](truncate(exact(WEIGHTS), None), replace(config, anchors=count))
    assert (len(plan.anchors), plan.proxy) == (count, fixed.proxy)
    assert plan.tail_law.tolist() == fixed.tail_law.tolist()
    logits = torch.tensor(WEIGHTS).double().log().view(1, 1, -1)
    found = TORCH["adaptive"](torch_truncate(logits, None, 0, torch.full((1, 1), float(score)).double()), config)
    assert found.leading is not None
    assert found.leading.tolist() == [[count]]
    assert found.tail_law[0, 0].tolist() == pytest.approx([0.0] * count + [float(x) for x in fixed.tail_law])
    assert fixed.proxy is not None
    assert float(found.proxy) == pytest.approx(float(fixed.proxy))


def test_nodes_of_one_tree_have_different_numbers_of_anchors_and_torch_names_them() -> None:
    config = Config(slots=3, beam=3, depth=2, budget=8, support=None)
    case = Case("any", random_toy(4, 4, 2, "any"), config)
    counts = [
        {len(each.result.plans[path].anchors) for path in {node.path[:-1] for node in each.result.nodes}}
        for each in classes_of(draft_of(case), config, METHODS["adaptive-transport"])
    ]
    assert max(map(len, counts)) > 1
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(64, dtype=torch.int64))
    tree = grow(pair.draft, draw_uniforms(config, range(64)).probe, config, TORCH["adaptive"])
    assert tree.leading is not None
    assert len(set(tree.leading.flatten().tolist())) > 1
    probes = (tree.kinds == PROBE) & tree.occupied
    assert (tree.slots == tree.leading)[probes].all()
    assert (tree.slots < tree.leading)[(tree.kinds == ANCHOR) & tree.occupied].all()
    for row in range(64):  # one probe a parent at most
        parents = tree.parents[row][probes[row]].tolist()
        assert len(parents) == len(set(parents))


def test_a_rule_for_one_node_refuses_trees_whose_nodes_differ() -> None:
    case = Case("any", random_toy(4, 4, 2, "any"), CONFIG)
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(2, dtype=torch.int64))
    uniforms = draw_uniforms(CONFIG, range(2))
    tree = grow(pair.draft, uniforms.probe, CONFIG, TORCH_METHODS["adaptive-transport"].growth)
    with pytest.raises(ValueError, match="as many anchors at every node"):
        verify(tree, pair.target(tree), uniforms, temperature(1.0), RULES["probe_first"])
