"""What slots are worth: seen as often as it happens, fitted by valid curves, kept in files that a drafter brings."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rheo.calibration import ByTemperature, Calibration, Curve, from_json, line, read, scaled, to_json
from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.methods import METHODS
from rheo.models import generation
from rheo.models.drafters import calibrated
from rheo.models.drafters.loading import load_drafter
from rheo.models.smollm2 import ModelError
from rheo.training.decoding import Turns
from rheo.training.prompts import Start
from rheo.tree import ANCHOR, FILLER, PROBE
from rheo.uniforms import draw_uniforms
from tests.conftest import Rheo
from tests.tiny_folders import write_target
from tests.tiny_models import head_tensors, tiny_target, write_head
from verify.benchmark.expected import REACH
from verify.benchmark.texts import target_law
from verify.calibrating import run as run_module
from verify.calibrating import starts as starts_module
from verify.calibrating.curves import KNOTS, LEAST, curve, fitted
from verify.calibrating.observed import Observed, joined, observe
from verify.calibrating.starts import answering
from verify.cases import Case
from verify.random_toys import random_toy
from verify.torch_toys import ToyPair, automaton

TREE = ("--slots", 4, "--beam", 3, "--depth", 3, "--budget", 12, "--support", 16)
ASKED = ("--draft", "skip:5", "--limit", 6, "--contexts", 4, "--temperature", 1, "--temperature", "0.5", *TREE)
SKEWED = Calibration(probe=(((0, 0), (Fraction(1, 2), Fraction(1, 8)), (1, 1)),), filler=(line(Fraction(1, 3)),) * 2)


# What is seen


@pytest.mark.parametrize("anchors", [0, 1, 2])
def test_slots_are_worth_what_they_are_accepted_as_often_as_their_parents_are_reached(anchors: int) -> None:
    """All tokens have slots and all slots survive: accepted kinds at each depth, counted, are the weighted worths."""
    count, vocab = 20_000, 4
    config = Config(anchors, vocab + 1, vocab, 2, vocab + vocab**2, None, 1.0)
    case = Case("any", random_toy(anchors, vocab, 2, "any"), config)
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(count, dtype=torch.int64))
    sampler = Sampler(config, METHODS["rheo"])
    drafts = []
    growth: Any = sampler.method.growth

    def noting(draft: Any, config: Config) -> Any:
        drafts.append(draft)
        return growth(draft, config)

    noted = replace(sampler, method=replace(sampler.method, growth=noting))
    tree, path = play_round(noted, pair, draw_uniforms(config, range(count)))
    p = target_law(sampler, pair.target(tree))
    seen = observe(tree, torch.cat([d.q for d in drafts], 1), p, config.slots, REACH[sampler.method.rule])
    assert (tree.tokens.shape[1], bool(tree.occupied.all())) == (config.budget, True)
    kinds = tree.kinds.gather(1, (path.rows - 1).clamp(min=0))
    for depth in range(2):
        for kind in (ANCHOR, PROBE, FILLER):
            here = (seen.depth == depth) & (seen.kind == kind)
            expected = (seen.weight * seen.worth)[here].sum() / count
            share = float(((path.rows[:, depth] > 0) & (kinds[:, depth] == kind)).double().mean())
            assert abs(share - expected) <= 5 * (share * (1 - share) / count) ** 0.5
            assert kind != PROBE or expected > 0


def test_contexts_end_in_front_of_what_the_target_sampled_as_an_answer() -> None:
    turns = Turns(frozenset([9]), ((7, 8), (5, 6)))  # an end; what follows a user's turn, and an answer
    asked = [1, 1, 2, 3, 9, 5, 6, 4, 9, 7, 8, 2]
    assert answering(asked, Start([1, 1], asked=True), turns) == [2, 3, 4, 11]
    assert answering([1, 4, 9, 7, 8, 2, 3], Start([1], asked=False), turns) == [5, 6]
    assert answering([1, 4, 2], Start([1], asked=False), Turns(frozenset(), ((), ()))) == [1, 2]


# Fits


def slots(kind: int, x: Any, worth: Any, depth: int = 0) -> Observed:
    n = len(x)
    return Observed(np.full(n, kind, np.int8), np.full(n, depth, np.int8), x, worth, np.ones(n))


def value(points: Curve, x: Any) -> Any:
    return np.interp(x, *np.array([[float(a), float(b)] for a, b in points]).T)


@pytest.mark.parametrize("truth", [lambda x: x, lambda x: 0.3 * x**0.5, lambda x: 0.9 * x**2])
def test_a_curve_finds_the_mean_of_what_it_is_fitted_to(truth: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.random(20_000)
    found = curve(x, (rng.random(len(x)) < truth(x)).astype(float), np.ones(len(x)))
    at = np.linspace(0.1, 0.95, 50)
    assert np.abs(value(found, at) - truth(at)).max() < 0.06
    assert len(found) <= KNOTS + 2


@pytest.mark.parametrize("seed", range(20))
def test_any_slots_give_curves_that_a_calibration_takes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 800))
    x = rng.choice([1e-9, 0.5, 1.0], n) if seed % 2 else rng.random(n) ** 8
    worth, weight = rng.random(n).round(1), rng.random(n) ** 6
    for found in (curve(x, worth, weight), curve(x, 1 - x, weight), curve(x, worth * 0, weight)):
        Calibration(probe=(found,))


def test_slots_count_by_their_weight() -> None:
    x, worth = np.full(1000, 0.5), np.repeat([0.0, 1.0], 500)
    assert value(curve(x, worth, np.where(worth > 0, 1.0, 3.0)), 0.5) == pytest.approx(0.25)


def test_depths_with_too_few_slots_share_the_last_curve() -> None:
    rng = np.random.default_rng(0)
    parts = []
    for kind in (ANCHOR, PROBE, FILLER):
        for depth, count in enumerate([4 * LEAST, 4 * LEAST, LEAST // 2, LEAST // 2 - 1]):
            x = rng.random(count)
            parts.append(slots(kind, x, x / (1 + depth), depth))
    found = fitted(joined(parts))
    assert [len(curves) for curves in (found.anchor, found.probe, found.filler)] == [2, 2, 2]
    for depth in (0, 1):
        assert value(found.probe[depth], 0.8) == pytest.approx(0.8 / (1 + depth), abs=0.1)
    with pytest.raises(ValueError, match="no filler to learn from"):
        fitted(joined(parts[:8]))


# Files


def test_the_nearest_temperature_counts_and_the_file_may_say_how_it_was_made() -> None:
    half = scaled(Fraction(1, 2), Fraction(1, 2))
    both = from_json({"made": {"by": "hand"}, "temperatures": {"1": to_json(SKEWED), "0.5": to_json(half)}})
    assert isinstance(both, ByTemperature)
    assert from_json(to_json(both)) == both
    config = Config(calibration=both)
    for temperature, expected in ((1, SKEWED), (2.0, SKEWED), (0.7, half), (0, half)):
        assert replace(config, temperature=temperature).worth == expected
    assert Config().worth == Calibration()
    assert from_json({"c": 0.1}) == scaled(Fraction(1, 10), Fraction(1, 2))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no calibration: Expecting value"),
        ('{"temperatures": {}}', "temperatures: there must be some"),
        ('{"temperatures": {"-1": {}}}', "none below 0"),
        ('{"temperatures": {"warm": {}}}', "temperatures: must be a number"),
        ('{"temperatures": {"1": {"temperatures": {}}}}', "must hold c and lambda"),
        ('{"temperatures": {"1": {}}, "c": 1}', "must hold c and lambda"),
        ('{"probe": [[[0, 0], [1, 2]]]}', "probe: a curve must not fall, nor leave 0..1"),
    ],
)
def test_a_bad_file_is_named_with_the_reason_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="no calibration") as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.model
def test_a_head_brings_its_calibration_and_what_is_given_goes_before_it(tmp_path: Path) -> None:
    target = tiny_target()
    folder = write_head(tmp_path / "head", head_tensors())
    assert calibrated(Config(), load_drafter(str(folder), target)).calibration == Calibration()
    (folder / "calibration.json").write_text(json.dumps(to_json(SKEWED)))
    drafter = load_drafter(str(folder), target)
    assert calibrated(Config(), drafter).calibration == SKEWED
    given = Config(calibration=scaled(Fraction(1, 3), 0))
    assert calibrated(given, drafter) == given
    (folder / "calibration.json").write_text("{")
    with pytest.raises(ModelError, match=r"calibration.json: no calibration: Expecting"):
        load_drafter(str(folder), target)


# The command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short texts, and no library to look through."""
    monkeypatch.setattr(starts_module, "LENGTH", 24)
    monkeypatch.setattr(starts_module, "library_functions", lambda: ["def f(x): return x", "def g(x): return 2 * x"])


@pytest.mark.model
@pytest.mark.usefixtures("short")
def test_what_a_stopped_run_has_seen_counts_when_it_goes_on(
    rheo: Rheo, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed, seen = tmp_path / "whole.json", tmp_path / "resumed.json", tmp_path / "seen.npz"
    status, _, said = rheo("calibrate", "--target", folder, "--output", whole, *ASKED)
    assert (status, said.count("contexts")) == (0, 2)
    found = read(whole)
    assert isinstance(found, ByTemperature)
    assert [float(temperature) for temperature, _ in found.fits] == [0.5, 1]
    assert found.at(1) != found.at(0.5)
    made = json.loads(whole.read_text())["made"]
    assert made["contexts"] == {"1": 24, "0.5": 24}

    inner, left = run_module.observe_rounds, [8]

    def stopped(*arguments: Any) -> Observed:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return inner(*arguments)

    monkeypatch.setattr(run_module, "observe_rounds", stopped)
    command = ("calibrate", "--target", folder, "--output", resumed, "--seen", seen, *ASKED)
    assert rheo(*command)[0] == 130
    assert not resumed.exists()
    left[0] = 4
    assert rheo(*command)[0] == 0
    assert read(resumed) == found
    status, _, said = rheo(*command, "--seed", 2)
    assert (status, said) == (2, f"rheo: {seen}: of another run: its seed differ; remove it or name another\n")


@pytest.mark.model
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--suite", "nowhere"), "nowhere: neither a suite"),
        (("--limit", 1, "--contexts", 1, "--anchors", 4), "--anchors: must be less than slots"),
        (("--temperature", -1), "Invalid value for '--temperature'"),
        (("--seen", "{seen}"), "holds no slots that rheo calibrate has seen"),
        (("--seen", "{output}"), "--output and --seen are the same file"),
    ],
)
def test_whatever_is_wrong_is_said_in_one_line(
    rheo: Rheo, folder: Path, tmp_path: Path, options: tuple[object, ...], reason: str
) -> None:
    output, seen = tmp_path / "output.json", tmp_path / "seen.npz"
    seen.write_text("nothing")
    given = [str(option).format(seen=seen, output=output) for option in options]
    status, _, said = rheo("calibrate", "--target", folder, "--output", output, *ASKED, *given)
    assert (status, said.count("\n")) == (2, 1)
    assert reason in said
    assert not output.exists()


@pytest.mark.model
def test_where_no_text_gives_a_context_nothing_is_written(rheo: Rheo, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "question.jsonl").write_text(json.dumps({"question_id": 1, "turns": ["w1 " * 400]}))
    output = tmp_path / "output.json"
    status, _, said = rheo("calibrate", "--target", folder, "--output", output, "--suite", tmp_path, *ASKED)
    assert (status, said.startswith("rheo: there is no context to learn from")) == (2, True)
    assert not output.exists()


@pytest.mark.model
def test_commands_take_a_calibration_and_refine_only_what_has_one(
    rheo: Rheo, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(to_json(SKEWED)))
    seen: list[tuple[Any, bool]] = []
    inner = generation.generate

    def noting(model: Any, drafter: Any, sampler: Sampler, *rest: Any, refine: bool) -> Any:
        seen.append((sampler.config.calibration, refine))
        return inner(model, drafter, sampler, *rest, refine=refine)  # type: ignore[misc]

    monkeypatch.setattr(generation, "generate", noting)
    command = ("generate", "w3 w4", "--target", folder, "--draft", "skip:5", "--max-new-tokens", 8, *TREE)
    assert rheo(*command, "--method", "calibrated", "--calibration", path, "--refine")[0] == 0
    assert rheo(*command)[0] == 0
    assert seen == [(SKEWED, True), (Calibration(), False)]
    assert rheo(*command, "--refine")[::2] == (2, "rheo: only a calibrated method can be refined\n")
    path.write_text("[]")
    status, _, said = rheo(*command, "--calibration", path)
    assert (status, said) == (2, f"rheo: --calibration: {path}: no calibration: must be an object\n")
