"""`rheo tune`: smaller trees are those that would be drafted, costs withstand drift, the fastest choice is picked, and
other commands draft with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.methods import METHODS
from rheo.tree import Frontier, Tree
from rheo.uniforms import draw_uniforms
from tests.conftest import Rheo
from tests.tiny_folders import words, write_target
from verify.benchmark import costs, expected, explore
from verify.benchmark.costs import LEVEL, ROOT, TARGET, TOKEN, cost, settled
from verify.benchmark.explore import Choice, Found, Search, Sight, look
from verify.benchmark.texts import target_law
from verify.benchmark.tuning import tuned
from verify.calibrating import starts
from verify.random_toys import random_toy
from verify.torch_toys import ToyPair, automaton

pytestmark = pytest.mark.model

TRIED = ("rheo", "rrsw", "topk", "rheo-transport", "calibrated-transport", "adaptive-transport", "chain", "block")
TREE = ("--slots", 4, "--beam", 3, "--depth", 3, "--budget", 8, "--support", 16)
OTHERS = ("--contexts", 2, "--limit", 2)


class Counting(ToyPair):
    """A toy that knows trees without nodes, and notes how many nodes are drafted at a time."""

    def target(self, tree: Tree) -> Tensor:
        return super().target(tree) if tree.tokens.shape[1] else self.table.target[self.state].unsqueeze(1)

    def draft(self, frontier: Frontier) -> Tensor:
        self.widths.append(frontier.tokens.shape[1])
        return super().draft(frontier)

    widths: list[int]


@pytest.mark.parametrize("kind", ["any", "ties", "peaked"])
def test_what_is_found_of_a_choice_is_what_drafting_with_it_gives(kind: str) -> None:
    config = Config(anchors=1, slots=3, beam=4, depth=3, budget=9, support=5, temperature=0.7)
    pair = Counting(automaton(random_toy(3, 7, 3, kind), torch.float64), torch.zeros(1, dtype=torch.int64))
    object.__setattr__(pair, "widths", [])
    search = Search(TRIED, config, 1)
    seen = 0
    for index in (1, 2):
        sight = look(pair, search, draw_uniforms(config, [5], index), 5, index)
        for name, choices in sight.found.items():
            assert max(choice.depth for choice in choices) == 3
            for choice, found in choices.items():
                own = replace(config, budget=choice.budget, depth=choice.depth, beam=choice.beam)
                pair.widths.clear()
                tree, _ = play_round(Sampler(own, METHODS[name]), pair, draw_uniforms(own, [5], index))
                assert tree.tokens.shape[1] == choice.budget
                assert tuple(pair.widths) == found.widths
                if choice.depth == 1 or name not in ("chain", "block"):  # which read other uniforms with another beam
                    p = target_law(Sampler(own, METHODS[name]), pair.target(tree))
                    tau = expected.tokens(tree, expected.REACH[METHODS[name].rule](tree, p))
                    assert found.tau == pytest.approx(float(tau[0]), abs=1e-9)
                    seen += 1
    assert seen > 100


def test_a_slow_pass_changes_no_share() -> None:
    once = {(TARGET, 1): 1.0, (TARGET, 8): 2.0, (ROOT, 1): 0.5}
    passes = [{key: slow * value for key, value in once.items()} for slow in (1.0, 7.0, 1.0, 0.9, 1.1)]
    assert settled(passes) == pytest.approx(once)
    outlier = [*passes, {**once, (ROOT, 1): 60.0}]
    assert settled(outlier)[ROOT, 1] < 0.6


def test_a_cost_never_falls_and_is_straight_in_between() -> None:
    curve = cost({(TARGET, 8): 3.0, (TARGET, 1): 1.0, (TARGET, 4): 4.0, (LEVEL, 2): 9.0}, TARGET)
    assert curve.counts == (1, 4, 8)
    assert curve.seconds == pytest.approx((1.0, 3.5, 3.5))
    assert curve.at(2) == pytest.approx(1 + 2.5 / 3)
    assert (curve.at(0), curve.at(99)) == pytest.approx((1.0, 3.5))


def test_forwards_are_timed_with_as_many_nodes_as_they_are_said_to_have() -> None:
    fed: list[tuple[str, int]] = []

    class Pair:
        def draft(self, frontier: Frontier) -> Tensor:
            fed.append((LEVEL if frontier.depth else ROOT, frontier.tokens.shape[1]))
            return torch.zeros(1, frontier.tokens.shape[1], 4)

        def target(self, tree: Tree) -> Tensor:
            fed.append((TARGET, tree.tokens.shape[1]))
            return torch.zeros(1, tree.tokens.shape[1] + 1, 4)

    times = iter(range(1000))
    watch = costs.Stopwatch(lambda: float(next(times)), {})
    sampler = Sampler(Config(), METHODS["topk"])
    costs.time_forwards(watch, Pair(), draw_uniforms(sampler.config, [1]), sampler, [8, 2], [3, 1])
    assert fed == [(TARGET, 8), (TARGET, 2), (TARGET, 0), (ROOT, 1), (LEVEL, 3), (LEVEL, 1)]
    assert set(watch.seconds) == {(TARGET, 8), (TARGET, 2), (TARGET, 0), (TOKEN, 1), (ROOT, 1), (LEVEL, 3), (LEVEL, 1)}


def made_up(per_node: float) -> list[Sight]:
    """Two contexts of a machine whose target takes a second, and this much for every node; the rest is nearly free."""
    seconds = {(TARGET, 1): 1 + per_node, (TARGET, 8): 1 + 8 * per_node, (LEVEL, 1): 0.01, (LEVEL, 3): 0.02}
    seconds |= {(TARGET, 0): 1.0, (ROOT, 1): 0.01, (TOKEN, 1): 1.5, ("rheo", 1): 0.01, ("rheo", 8): 0.01}

    def found(tau: float, *widths: int) -> Found:
        return Found(tau, widths, 0.0)

    return [
        Sight(seconds, {"rheo": {Choice(1, 1, 1): found(1.5 + by, 1), Choice(8, 2, 3): found(3.0 + by, 1, 3)}})
        for by in (-0.1, 0.1)
    ]


@pytest.mark.parametrize(("per_node", "budget"), [(0.001, 8), (1.0, 1)])
def test_dear_nodes_make_small_trees(per_node: float, budget: int) -> None:
    result = tuned(Search(("rheo",), Config(), 1), made_up(per_node))
    best = result["methods"]["rheo"]["best"]
    assert best["budget"] == budget
    tau = {1: 1.5, 8: 3.0}[budget]
    drafted = {1: 0.01, 8: 0.03}[budget]
    seconds = 1 + budget * per_node + drafted + 0.01
    assert best["tau"] == pytest.approx(tau)
    assert best["tokens_per_second"] == pytest.approx(tau / seconds)
    assert best["speedup"] == pytest.approx(1.5 * tau / seconds)  # a token takes half a second to draw
    assert [row["budget"] for row in result["methods"]["rheo"]["others"]] == [9 - budget]
    assert result["autoregressive"]["milliseconds"] == pytest.approx(1500)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny target, and a suite of two questions."""
    where = write_target(tmp_path_factory.mktemp("target"))
    rows = [json.dumps({"question_id": i, "turns": [words(i + 3, 17, 9, 41)]}) for i in range(2)]
    (where / "question.jsonl").write_text("\n".join(rows))
    return where


@pytest.fixture
def pair(folder: Path) -> tuple[object, ...]:
    return ("--target", folder, "--draft", "skip:5")


@pytest.fixture(scope="module")
def result(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `rheo tune` would have written, with trees that nobody would pick by chance."""
    path = tmp_path_factory.mktemp("tuned") / "tuned.json"
    trees = {
        "rheo": {"best": {"budget": 3, "depth": 2, "beam": 1}},
        "topk": {"best": {"budget": 2, "depth": 1, "beam": 1}},
    }
    settings = {"target": str(folder), "draft": "skip:5", "dtype": "float32", "device": "cpu"}
    path.write_text(json.dumps({"kind": "tune", "settings": settings, "methods": trees}))
    return path


def test_the_fastest_choice_is_written_and_shown_and_taken_up(
    rheo: Rheo, folder: Path, pair: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # names are broken into lines where there is less room
    path = tmp_path / "tuned.json"
    methods = ("--method", "rheo-transport", "--method", "topk")
    status, out, err = rheo("tune", *pair, "--suite", folder, *TREE, *OTHERS, *methods, "--output", path)
    assert (status, out) == (0, "")
    record = json.loads(path.read_text())
    assert record["contexts"] == 4
    for name in ("rheo-transport", "topk"):
        best, others = record["methods"][name]["best"], record["methods"][name]["others"]
        assert best["tokens_per_second"] >= max(row["tokens_per_second"] for row in others)
        assert {row["depth"] for row in (best, *others)} == {1, 2, 3}
        assert len({(row["budget"], row["depth"], row["beam"]) for row in (best, *others)}) == 1 + len(others)
        assert name in err
    deep = [row["tau"] for row in (best, *others) if row["depth"] == 3 and row["beam"] == 3]
    assert max(deep) == next(row["tau"] for row in (best, *others) if tuple(row[k] for k in TREE_KEYS) == (8, 3, 3))
    assert "autoregressive" in err
    arguments = (words(3, 17, 9), *pair, "--slots", 4, "--support", 16, "--max-new-tokens", 6)
    generate = ("generate", *arguments, "--method", "topk", "--json", "--show-tree")
    best = [item for key in TREE_KEYS for item in (f"--{key}", record["methods"]["topk"]["best"][key])]
    tuned, told = (rheo(*generate, *how) for how in (("--tuned", path), best))  # a tree may have less than its budget
    assert tuned[0] == told[0] == 0
    assert json.loads(tuned[1])["tree"] == json.loads(told[1])["tree"]


TREE_KEYS = ("budget", "depth", "beam")


def test_generation_drafts_with_what_was_found_unless_told_otherwise(
    rheo: Rheo, pair: tuple[object, ...], result: Path
) -> None:
    arguments = ("generate", words(3, 17, 9), *pair, "--slots", 4, "--support", 16, "--max-new-tokens", 12, "--json")

    def generated(*more: object) -> Any:
        status, out, _ = rheo(*arguments, "--method", "rheo", *more, "--show-tree")
        assert status == 0
        return {key: value for key, value in json.loads(out).items() if key not in ("seconds", "tokens_per_second")}

    assert generated("--tuned", result) == generated("--budget", 3, "--depth", 2, "--beam", 1)
    assert generated("--tuned", result)["tree"]["nodes"] == 3
    assert generated("--tuned", result, "--budget", 4)["tree"]["nodes"] == 4
    assert generated("--tuned", result, "--method", "topk")["tree"]["nodes"] == 2


def test_a_benchmark_gives_every_method_its_own_tree(
    rheo: Rheo, folder: Path, pair: tuple[object, ...], result: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    small = ("--slots", 4, "--support", 16, "--limit", 1, "--seeds", 1, "--contexts", 1, "--max-new-tokens", 6)
    arguments = ("bench", *pair, "--suite", folder, *small, "--methods", "ar,rheo,topk", "--json", path)
    assert rheo(*arguments, "--tuned", result)[0] == 0
    record = json.loads(path.read_text())
    own = record["settings"]["tuned"]
    assert {name: [tree[key] for key in TREE_KEYS] for name, tree in own.items()} == {
        "rheo": [3, 2, 1],
        "topk": [2, 1, 1],
    }
    reached = {row["method"]: len(row["reached"]) for row in record["summary"]["acceptance"]}
    assert reached == {"rheo": 3, "topk": 2}  # one more than its depth
    assert all(len(row["expected"]) == len(row["sampled"]) for row in record["summary"]["acceptance"])
    assert rheo("report", path)[0] == 0
    assert "budget 3, depth 2, beam 1" in path.with_suffix(".html").read_text()
    status, _, err = rheo(*arguments, "--reuse", path)
    assert status == 2
    assert "its tuned differ" in err


def test_prompts_are_made_up_where_no_suite_is_given(
    rheo: Rheo, pair: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "library_functions", lambda: ["w3 w4 w5", "w7 w8 w9"])
    asked: list[list[int]] = []
    inner = explore.explore

    def noting(models: Any, search: Any, prompt: Any, seed: int) -> Any:
        asked.append(list(prompt))
        return inner(models, search, prompt, seed)

    monkeypatch.setattr("verify.benchmark.tuning.explore", noting)
    path = tmp_path / "tuned.json"
    status, _, _ = rheo("tune", *pair, *TREE, "--limit", 6, "--contexts", 1, "--method", "topk", "--output", path)
    assert status == 0
    assert [3, 4, 5] in [text[:3] for text in asked]
    assert len(asked) == json.loads(path.read_text())["settings"]["limit"]
    assert max(map(len, asked)) > 10  # texts that the target went on with


def test_an_interrupt_leaves_no_file(
    rheo: Rheo, folder: Path, pair: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Sight:
        raise KeyboardInterrupt

    monkeypatch.setattr(explore, "look", interrupted)
    path = tmp_path / "tuned.json"
    status, out, err = rheo("tune", *pair, "--suite", folder, *TREE, *OTHERS, "--output", path)
    assert (status, out, err.strip()) == (130, "", "rheo: interrupted")
    assert not path.exists()


def test_a_prompt_that_cannot_be_taken_up_is_named(rheo: Rheo, pair: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "question.jsonl").write_text(json.dumps({"question_id": "long", "turns": [words(*[1] * 600)]}))
    status, _, err = rheo("tune", *pair, "--suite", tmp_path, *TREE)
    assert status == 2
    assert "prompt long: prompt 0 has 600 tokens" in err


def changed(**settings: object) -> Callable[[Any], None]:
    return lambda record: record["settings"].update(settings)


def budget(value: object) -> Callable[[Any], None]:
    return lambda record: record["methods"]["rheo"]["best"].update(budget=value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed(target="other"), "tuned for target other, not "),
        (changed(draft="skip:2"), "tuned for draft skip:2, not skip:5"),
        (changed(dtype="bfloat16"), "tuned for dtype bfloat16, not float32"),
        (changed(device="cuda"), "tuned for device cuda, not cpu"),
        (lambda record: record["methods"].pop("rheo"), "not tuned for rheo, but for topk"),
        (lambda record: record.update(kind="bench"), "no result of rheo tune"),
        (lambda record: record.pop("settings"), "no result of rheo tune: KeyError"),
        (budget(0), "rheo: budget: must be at least 1"),
        (budget("3"), "rheo: budget: must be an integer"),
    ],
)
def test_a_file_for_something_else_is_refused_in_one_line(
    rheo: Rheo,
    pair: tuple[object, ...],
    result: Path,
    tmp_path: Path,
    damage: Callable[[Any], None],
    message: str,
) -> None:
    record = json.loads(result.read_text())
    damage(record)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(record))
    status, out, err = rheo("generate", words(3), *pair, "--method", "rheo", "--tuned", path)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert str(path) in err
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", "x", "--tuned", __file__), "no result of rheo tune: JSONDecodeError"),
        (("generate", "x", "--tuned", "/nowhere"), "/nowhere"),
        (("bench", "--tuned", __file__, "--ablations", "all"), "--ablations vary one tree"),
        (("tune", "--method", "nonsense"), "nonsense"),
        (("tune", "--anchors", "30"), "--anchors: must be less than slots"),
        (("tune", "--output", "/no/x"), "/no: no such folder"),
    ],
)
def test_bad_options_are_one_line(rheo: Rheo, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = rheo(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_method_without_a_formula_is_refused_by_name(rheo: Rheo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(expected.REACH, METHODS["rrsw"].rule)
    status, _, err = rheo("tune", "--method", "topk", "--method", "rrsw")
    assert (status, err) == (2, "rheo: --method rrsw: there is no formula for its expected tokens\n")
