"""The benchmark of full models: its expectations are exact, its baseline is greedy where it should be, and a run that
was stopped comes to the same figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import ttest_1samp

from reference.methods import METHODS as REFERENCE
from reference.methods import PAPER
from rheo.cli import model_bench
from rheo.cli.models import Loaded
from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.growths.static import Static
from rheo.methods import METHODS
from rheo.models import target as target_module
from rheo.models.generation import Limits, generate
from rheo.uniforms import draw_uniforms
from tests.conftest import Rheo
from tests.tiny_models import CONFIG, PROMPTS, VOCAB, keep_a_stale_row, skipping, tiny_target
from verify.benchmark import depth_one, expected, shaping, stats
from verify.benchmark import run as run_module
from verify.benchmark.autoregressive import NoDrafter, play_token
from verify.benchmark.clock import Seconds, Watched, split
from verify.benchmark.contexts import compare
from verify.benchmark.floor import numeric_floor
from verify.benchmark.plan import ABLATIONS, Plan, Question, units, variants
from verify.benchmark.pruning import pruned
from verify.benchmark.shapes import of_record
from verify.benchmark.texts import Models, target_law
from verify.cases import Case
from verify.laws import classes_of, compose, draft_of, exact_law, exact_stops, target_of
from verify.random_toys import random_toy
from verify.torch_law import expected_tree
from verify.torch_toys import ToyPair, automaton
from verify.transport import bound, candidate_sets, min_cut, node_acceptance, slot_plan

pytestmark = pytest.mark.model

EXPECTED = tuple(METHODS)
SMALL = Config(anchors=1, slots=3, beam=2, depth=2, budget=5, support=None, temperature=Fraction(1))
METHOD_NAMES = ("ar", "topk", "rrsw", "rheo")
QUESTIONS = tuple(Question(f"q{i}", tuple(prompt)) for i, prompt in enumerate(PROMPTS))
PLAN = Plan(
    suites={"a": QUESTIONS, "b": QUESTIONS[:2]},
    methods=METHOD_NAMES,
    config=replace(CONFIG, temperature=1.0),
    max_new_tokens=12,
    seeds=2,
    contexts=2,
    ablations=ABLATIONS,
    vocab=VOCAB,
)


@pytest.fixture(scope="module")
def models() -> Models:
    target = tiny_target()
    return Models(target, skipping(target))


def played(case: Case, method: str, count: int) -> Any:
    """Trees, paths and the target's distributions of `count` rounds on a toy."""
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(count, dtype=torch.int64))
    sampler = Sampler(case.config, METHODS[method])
    tree, path = play_round(sampler, pair, draw_uniforms(case.config, range(count)))
    return tree, path, target_law(sampler, pair.target(tree))


@pytest.mark.parametrize("kind", ["any", "ties", "zeros", "equal", "disjoint", "peaked"])
@pytest.mark.parametrize("method", EXPECTED)
def test_expected_tokens_given_a_tree_are_those_of_exact_enumeration(method: str, kind: str) -> None:
    seen = 0
    # A tree of fixed shape has a class for whatever each of its nodes may be.
    vocab = 3 if isinstance(METHODS[method].growth, Static) else 5
    for change in ({}, {"anchors": 0}, {"anchors": 2, "slots": 4}, {"temperature": Fraction(1, 2)}, {"temperature": 0}):
        case = Case(kind, random_toy(5, vocab, 2, kind), replace(SMALL, **change))
        tree, _, p = played(case, method, 200)
        tokens = expected.tokens(tree, expected.REACH[METHODS[method].rule](tree, p))
        stops = exact_stops(target_of(case), REFERENCE[method].rule)
        trees = {expected_tree(c.result): c.result for c in classes_of(draft_of(case), case.config, REFERENCE[method])}
        exact: dict[Any, float] = {}
        for row, value in enumerate(tokens.tolist()):
            columns = (tree.tokens[row].tolist(), tree.parents[row].tolist(), tree.slots[row].tolist())
            places = zip(*columns, tree.occupied[row].tolist(), strict=True)
            key = tuple((token, parent, slot) for token, parent, slot, there in places if there)
            if key in trees:  # a probe that was never popped is named by its first token there
                if key not in exact:
                    exact[key] = float(compose([(1, trees[key])], stops).accepted + 1)
                assert value == pytest.approx(exact[key], abs=1e-9)
                seen += 1
    assert seen >= 200


@pytest.mark.parametrize("method", EXPECTED)
def test_expected_tokens_are_the_mean_of_sampled_ones_at_every_depth(method: str) -> None:
    case = Case("any", random_toy(8, 8, 3, "any"), Config(1, 4, 3, 3, 9, 6, 1.0))
    tree, path, p = played(case, method, 20_000)
    reach = expected.REACH[METHODS[method].rule](tree, p)
    for depth, share in enumerate(expected.by_depth(tree, reach, 3).T):
        excess = (path.lengths > depth).double() - share
        assert abs(excess.mean()) <= 5 * excess.std() / len(excess) ** 0.5
    assert expected.by_depth(tree, reach, 3)[:, 1:].sum(-1).allclose(expected.tokens(tree, reach) - 1)


def node_of(tree: Any, p: torch.Tensor, slots: int) -> depth_one.Node:
    """The root of the first tree, where the target's distribution is p [V]."""
    support = tree.support[0, 0]
    beside = p.index_fill(0, support, 0).sum().unsqueeze(0)
    return depth_one.Node(p[support], beside, tree.tail_law[0, 0], tree.anchors, slots)


@pytest.mark.parametrize("anchors", [0, 1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_acceptance_at_one_node_and_its_bound_are_those_of_exact_transport(seed: int, anchors: int) -> None:
    toy = random_toy(seed, 7, 0, ("any", "ties", "peaked")[seed % 3])
    config = Config(anchors, 4, 1, 1, 4, 6, Fraction(1))
    weights = toy.draft.exact(())
    case = Case("node", toy, config)
    p = target_of(case)(())
    for name in (*PAPER, "rheo-transport"):
        figures = depth_one.AT_ONE_NODE[METHODS[name].rule]
        tree, _, rows = played(case, name, 1)
        node = node_of(tree, rows[0, 0], config.slots)
        exact = node_acceptance(p, weights, config, REFERENCE[name])
        assert figures.accepted(node) == pytest.approx(float(exact), abs=1e-12)
        assert figures.bound(node) == pytest.approx(
            float(bound(p, slot_plan(weights, config, REFERENCE[name]))), abs=1e-12
        )


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_acceptance_of_drawn_children_and_its_bound_are_those_of_enumeration_and_maximum_flow(
    seed: int, slots: int
) -> None:
    toy = random_toy(seed, 5, 0, ("any", "ties", "peaked", "zeros", "disjoint", "equal")[seed])
    case = Case("node", toy, Config(0, slots, 1, 1, slots, 4, Fraction(1)))
    p = target_of(case)(())
    for name in ("chain", "block", "specinfer", "spectr", "sequoia"):
        figures = depth_one.AT_ONE_NODE[METHODS[name].rule]
        tree, _, rows = played(case, name, 1)
        node = node_of(tree, rows[0, 0], 1 if name in ("chain", "block") else slots)
        law, classes = exact_law(case, REFERENCE[name])
        # The factor is rounded up; refusals of distinct children are so many that 0.03 is far more than five errors.
        error = {"spectr": slots * 2.0**-20, "sequoia": 0.03 if slots > 1 else 0.0}.get(name, 0.0) + 1e-9
        assert figures.accepted(node) == pytest.approx(float(law.accepted), abs=error)
        flow = min_cut(p, candidate_sets((each.mass, each.result) for each in classes))
        assert figures.bound(node) == pytest.approx(float(flow), abs=1e-9)


def test_draws_without_replacement_are_all_inside_a_set_as_often_as_enumeration_says() -> None:
    """However small the rates of those outside."""
    for law in ([0.4, 0.3, 0.2, 0.1], [1.0, 1e-20, 2e-40, 1e-40], [1e-9, 0.5, 0.5, 1e-300]):
        rates = torch.tensor(law, dtype=torch.float64)
        for count in (1, 2, 3, 4):
            exact = [
                sum(
                    math.prod(law[x] / sum(law[y] for y in range(4) if y not in order[:i]) for i, x in enumerate(order))
                    for order in permutations(range(4), count)
                    if max(order) <= last
                )
                for last in range(4)
            ]
            assert depth_one.all_inside(rates, count).tolist() == pytest.approx(exact, abs=1e-9)


def test_no_fixed_set_of_candidates_holds_more_than_the_likeliest_tokens() -> None:
    p = torch.tensor([0.1, 0.4, 0.2, 0.3])
    assert [depth_one.likeliest(p, count) for count in (1, 2, 9)] == pytest.approx([0.4, 0.7, 1.0])


def test_the_baseline_emits_what_transformers_generates_greedily(models: Models) -> None:
    greedy = Sampler(replace(CONFIG, temperature=0), METHODS["topk"])
    target: Any = models.target
    for prompt in PROMPTS:
        rounds = list(generate(target, NoDrafter(), greedy, [prompt], [1], Limits(20), play=play_token))
        out = target.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=20, pad_token_id=0)
        assert [done.tokens[0] for done in rounds] == [[token] for token in out[0, len(prompt) :].tolist()]


def test_the_baseline_draws_as_a_round_of_point_masses_does(models: Models) -> None:
    sampler = Sampler(replace(CONFIG, temperature=1.0), METHODS["topk"])
    for seed in range(8):
        first = [
            next(generate(models.target, drafter, sampler, [PROMPTS[2]], [seed], Limits(1), play=play)).tokens
            for drafter, play in ((NoDrafter(), play_token), (models.drafter, None))
        ]
        assert first[0] == first[1]


def test_the_baseline_reads_one_token_a_round_and_keeps_its_cache(models: Models) -> None:
    fed: list[int] = []
    hook = models.target.register_forward_pre_hook(
        lambda _, __, kwargs: fed.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    sampler = Sampler(replace(CONFIG, temperature=1.0), METHODS["topk"])
    list(generate(models.target, NoDrafter(), sampler, [PROMPTS[0]], [1], Limits(6), play=play_token))
    hook.remove()
    assert fed == [len(PROMPTS[0]) - 1, *[1] * 6]


def test_methods_take_turns_question_by_question_and_each_is_first_as_often() -> None:
    texts = [unit for unit in units(PLAN) if unit.kind == "text"]
    blocks = [texts[i : i + 4] for i in range(0, len(texts), 4)]
    for block in blocks:
        assert {unit.method for unit in block} == set(METHOD_NAMES)
        assert len({(unit.suite, unit.question.identifier, unit.seed, unit.stream) for unit in block}) == 1
    firsts = Counter(block[0].method for block in blocks)
    assert max(firsts.values()) - min(firsts[name] for name in METHOD_NAMES) <= 1
    assert [block[0].suite for block in blocks[:4]] == ["a", "b", "a", "b"]
    assert len({unit.key for unit in units(PLAN)}) == len(list(units(PLAN)))
    assert len({unit.stream for unit in texts}) == len(blocks)


def test_ablations_hold_the_runs_own_value_and_leave_out_what_means_nothing() -> None:
    by_name = {variant.name: variant for variant in variants(PLAN, 1.0)}
    assert next(iter(by_name)) == "base"
    assert set(by_name) == {
        "base", "support=full", "anchors=0", "anchors=2", "anchors=3", "budget=15", "budget=31", "budget=59",
    }  # fmt: skip
    assert by_name["anchors=0"].methods == ("rrsw", "rheo")
    assert by_name["budget=15"].methods == ("topk", "rrsw", "rheo")
    assert [variant.name for variant in variants(PLAN, 0.3)] == ["base", "budget=15", "budget=31", "budget=59"]
    alone = replace(PLAN, ablations=("temperature",))
    assert [variant.name for variant in variants(alone, 0.3)] == ["base"]


def test_times_are_split_between_the_models_and_the_sampler() -> None:
    times = iter([1.0, 2.0, 10.0, 11.0, 20.0, 25.0])
    pair: Any = SimpleNamespace(draft=lambda frontier: torch.zeros(1), target=lambda tree: torch.ones(1))
    watched = Watched(pair, lambda: next(times))
    frontiers: Any = [SimpleNamespace(previous=None), SimpleNamespace(previous=1)]
    for frontier in frontiers:
        watched.draft(frontier)
    watched.target(frontiers[0])
    assert split(watched, 0.5, 27.5) == Seconds(draft=2.0, verify=5.0, sampling=20.0)


def test_a_speed_up_is_a_ratio_of_rates_whose_interval_pairs_prompts() -> None:
    slow = {0: (10.0, 1.0), 1: (10.0, 2.0), 2: (30.0, 2.0)}
    fast = {prompt: (tokens, seconds / 3) for prompt, (tokens, seconds) in slow.items()}
    ratio, around = stats.speedup([fast, fast], [slow, slow])
    assert ratio == pytest.approx(3)
    assert around == pytest.approx([3, 3])
    fast[1] = (10.0, 1.0)
    _, around = stats.speedup([fast], [slow])
    assert around is not None
    assert around[0] < around[1]
    assert stats.speedup([{0: (1.0, 1.0)}], [{0: (1.0, 2.0)}]) == (2.0, None)


def test_the_numeric_floor_is_low_and_shows_a_stale_cache(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    found = numeric_floor(models, PLAN, "rheo", PROMPTS[0], 1)
    assert found["tokens"] == 12
    assert found["largest"] < 1e-4
    monkeypatch.setattr(target_module, "keep", keep_a_stale_row)
    assert numeric_floor(models, replace(PLAN, max_new_tokens=40), "rheo", PROMPTS[0], 1)["largest"] > 1e-2


@pytest.mark.parametrize("method", ["specinfer", "spectr"])
def test_a_smaller_complete_tree_is_the_beginning_of_a_larger_one(method: str) -> None:
    large = Case("any", random_toy(3, 6, 3, "any"), Config(0, 3, 1, 3, 20, 4, 1.0))
    tree, _, p = played(large, method, 50)
    for budget in (1, 4, 11, 19):
        small, _, other = played(replace(large, config=replace(large.config, budget=budget)), method, 50)
        beginning = pruned(tree, range(budget))
        assert torch.equal(beginning.tokens, small.tokens)
        assert torch.equal(beginning.parents, small.parents)
        both = ((beginning, p[:, : budget + 1]), (small, other))
        taus = [expected.tokens(grown, expected.REACH[METHODS[method].rule](grown, rows)) for grown, rows in both]
        assert taus[0].allclose(taus[1], atol=1e-12)


def test_measured_acceptance_is_how_often_each_child_of_a_node_that_is_reached_is_the_one_accepted() -> None:
    count = 10_000
    case = Case("any", random_toy(4, 6, 2, "any"), Config(0, 3, 1, 2, 12, None, 1.0))
    sampler = Sampler(case.config, shaping.EVEN)
    pair = ToyPair(automaton(case.toy, torch.float64), torch.zeros(count, dtype=torch.int64))
    tree, path = play_round(sampler, pair, draw_uniforms(case.config, range(count)))
    accepted, reached = shaping.rates(tree, target_law(sampler, pair.target(tree)), case.config)
    visits = count + int((path.rows[:, 0] > 0).sum())
    assert len(set(reached.tolist())) == 1
    assert abs(visits - float(reached[0])) < 5 * count**0.5
    followed = [child for row in path.rows.flatten().tolist() if row > 0 for child in [int(tree.slots[0, row - 1])]]
    for child, share in enumerate(accepted.tolist()):
        assert abs(followed.count(child) - share) < 5 * share**0.5
    assert len(set(accepted.tolist())) == 3


def test_the_number_of_children_that_yields_most_is_taken_and_sequoias_tree_is_made_for_its_acceptance() -> None:
    record = {"contexts": 1, "tau": {"spectr": {"15": {"1": 1.5, "4": 2.0, "2": 2.0}}}, "acceptance": [0.7, 0.2]}
    found = of_record(record)
    config = Config(anchors=5, budget=15)
    assert (found.applied("spectr", config).slots, found.applied("spectr", config).anchors) == (2, 1)
    assert found.applied("spectr", replace(config, budget=16)) == replace(config, budget=16)
    assert found.applied("sequoia", config).acceptance.rates == (0.7, 0.2)
    assert found.applied("rheo", config) == config


class Letters:
    """A tokenizer of single characters."""

    chat_template = None
    bos_token_id = None

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % VOCAB for letter in text]}


@pytest.fixture
def bench(rheo: Rheo, monkeypatch: pytest.MonkeyPatch, models: Models, tmp_path: Path) -> Any:
    """`rheo bench` on the tiny pair, a suite of two questions and a small tree, with further arguments."""
    loaded: Any = Loaded(models.target, Letters(), models.drafter)  # type: ignore[arg-type]
    monkeypatch.setattr(model_bench, "load", lambda *_: loaded)
    suite = tmp_path / "tiny"
    suite.mkdir()
    rows = [json.dumps({"question_id": i, "turns": [f"question {i}", "more"]}) for i in range(4)]
    (suite / "question.jsonl").write_text("\n".join(rows))
    tree = ["--slots", 4, "--beam", 3, "--depth", 3, "--budget", 8, "--support", 16]

    def run(*arguments: object) -> tuple[int, str, str]:
        return rheo("bench", "--suite", suite, "--max-new-tokens", 8, "--contexts", 2, *tree, *arguments)

    return run


def untimed(record: Any) -> Any:
    """A result without what is measured by a clock."""
    if isinstance(record, dict):
        return {key: untimed(value) for key, value in record.items() if key != "timed"}
    return record


def test_a_run_that_was_stopped_goes_on_to_the_same_figures(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    assert bench("--json", whole)[0] == 0
    carried_out, count = run_module._carried_out, [0]

    def stopping(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] == 7:
            raise KeyboardInterrupt
        return carried_out(*arguments)

    monkeypatch.setattr(run_module, "_carried_out", stopping)
    status, out, err = bench("--json", parts)
    assert (status, out) == (130, "")
    assert "these are the figures of what was finished" in err
    stopped = json.loads(parts.read_text())
    assert (len(stopped["units"]), stopped["complete"]) == (6, False)
    assert bench("--json", parts, "--resume")[0] == 0
    first, second = json.loads(whole.read_text()), json.loads(parts.read_text())
    assert second["complete"]
    assert count[0] == 1 + len(first["units"])
    assert untimed(first["units"]) == untimed(second["units"])
    starts = [record["starts"] for record in first["units"].values() if "starts" in record]
    assert all(start >= 4 * i for each in starts for i, start in enumerate(each))  # spread over the text
    assert max(map(len, starts)) == 2
    assert {unit: second["units"][unit] for unit in stopped["units"]} == stopped["units"]
    for section in ("expected", "acceptance", "floor", "depth_one"):
        assert first["summary"][section] == second["summary"][section]
    assert [row["tau"] for row in first["summary"]["table"]] == [row["tau"] for row in second["summary"]["table"]]
    # Finished: nothing is left to run.
    assert bench("--json", parts, "--resume")[0] == 0
    assert count[0] == 1 + len(first["units"])


def test_another_run_lends_what_fits_and_no_more(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    assert bench("--seeds", 1, "--limit", 1, "--methods", "ar,topk", "--json", small)[0] == 0
    done = json.loads(small.read_text())["units"]
    carried_out, seen = run_module._carried_out, []

    def noting(models: Models, plan: Plan, unit: Any) -> Any:
        seen.append(unit.key)
        return carried_out(models, plan, unit)

    monkeypatch.setattr(run_module, "_carried_out", noting)
    arguments = ("--seeds", 1, "--limit", 2, "--methods", "ar,topk", "--reuse", small)
    assert bench(*arguments, "--json", large)[0] == 0
    every = json.loads(large.read_text())["units"]
    assert not set(done) & set(seen)
    assert {key: every[key] for key in done} == done
    assert set(every) == set(done) | set(seen)
    for other in (("--depth", 2), ("--max-new-tokens", 9)):
        status, _, err = bench(*arguments, *other)
        assert status == 2
        assert "of another run: its" in err
        assert len(err.splitlines()) == 1


def keys(record: Any) -> Any:
    """The keys of a document by section, methods and other names aside."""
    if isinstance(record, list):
        return keys(record[0]) if record else None
    if isinstance(record, dict):
        named = {"units", "methods", "differences", "versions"}
        return {key: None if key in named else keys(value) for key, value in record.items()}
    return None


def test_the_documented_example_has_the_keys_of_a_real_run_and_the_terminal_shows_it(
    bench: Any, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    arguments = ("--ablations", "all", "--limit", 2, "--seeds", 1, "--max-new-tokens", 4)
    status, out, err = bench(*arguments, "--json", path)
    assert (status, out) == (0, "")
    example = json.loads((Path(__file__).parent / "data" / "bench.json").read_text())
    real = json.loads(path.read_text())
    assert keys(real) == keys(example)
    for title in ("expected tau at the same round starts", "expected tau by support", "numeric floor", "T = 1"):
        assert title in err


def test_all_methods_meet_rheo_at_every_temperature_and_size_in_shapes_of_their_own(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    arguments = ("--methods", ",".join(METHODS), "--ablations", "budget,temperature", "--limit", 2, "--seeds", 1)
    assert bench(*arguments, "--max-new-tokens", 4, "--contexts", 1, "--json", path)[0] == 0
    found = json.loads(path.read_text())["summary"]
    rows = {(row["temperature"], row["budget"], row["method"]): row for row in found["grid"]}
    assert set(rows) == set(product((0.0, 0.3, 0.6, 1.0), (8, 15, 31, 59), METHODS))
    assert all(row["differences"]["rheo"]["interval"] for (_, _, name), row in rows.items() if name != "rheo")
    assert set(found["depth_one"]["methods"]) == set(METHODS)
    for each in found["depth_one"]["methods"].values():
        assert each["accepted"] <= each["bound"] + 0.03
    assert [each["temperature"] for each in found["shapes"]] == [1.0, 0.0, 0.3, 0.6]
    for each in found["shapes"]:
        assert 0 < sum(each["acceptance"]) <= 1 + 1e-5
        assert {(choice["method"], choice["budget"]) for choice in each["choices"]} == set(
            product(("specinfer", "spectr"), (8, 15, 31, 59))
        )


def test_without_texts_there_are_contexts_where_every_method_also_emits(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert bench("--methods", "ar,rheo,rheo-transport", "--seeds", 0, "--limit", 2, "--json", path)[0] == 0
    document = json.loads(path.read_text())
    assert {key.split("/")[0] for key in document["units"]} == {"contexts", "floor"}
    found = document["summary"]
    assert not found["table"]
    assert not found["time"]
    for row in found["expected"]:
        emitted = [
            unit["variants"]["base"]["methods"][row["method"]]["emitted"]
            for key, unit in document["units"].items()
            if key.startswith("contexts/")
        ]
        assert row["sampled"] == pytest.approx(sum(map(sum, emitted)) / sum(map(len, emitted)))
        assert row["excess"]["mean"] == pytest.approx(row["sampled"] - row["tau"])


def test_what_methods_emit_at_contexts_agrees_with_what_is_expected(models: Models) -> None:
    """The difference has mean 0 at every context, whatever else is shared; a false alarm in a million runs."""
    methods = ("topk", "rheo", "rheo-transport", "block")
    plan = replace(PLAN, methods=methods, ablations=(), contexts=12, max_new_tokens=24)
    records = [compare(models, plan, question.tokens, 1.0, seed) for seed in range(12) for question in QUESTIONS]
    for name in methods:
        found = [record["variants"]["base"]["methods"][name] for record in records]
        excess = [float(sum(each["emitted"]) - sum(each["tau"])) for each in found]
        score: Any = ttest_1samp(excess, 0.0)
        assert abs(score.statistic) < 5.5, name


def test_a_long_run_without_a_file_prints_its_figures(bench: Any) -> None:
    status, out, err = bench("--methods", "ar,rheo", "--seeds", 1, "--limit", 1)
    assert (status, err) == (0, "")
    assert "rheo" in out
    assert "speed-up" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "ar,nonsense"), "--methods: no nonsense"),
        (("--methods", ""), "--methods: no empty name"),
        (("--ablations", "size"), "--ablations: no size"),
        (("--resume",), "--resume needs --json"),
        (("--anchors", "9"), "--anchors: must be less than slots"),
        (("--suite", "/nowhere"), "/nowhere: neither a suite"),
        (("--json", "/no/x"), "/no: no such folder"),
        (("--reuse", __file__), "no result of rheo bench"),
        (("--temperature", "nan"), "nan is no number"),
    ],
)
def test_bad_options_are_one_line(bench: Any, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = bench(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_question_that_does_not_fit_is_named(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny" / "question.jsonl").write_text(json.dumps({"question_id": 7, "turns": ["x" * 600]}))
    status, _, err = bench()
    assert status == 2
    assert "tiny, question 7: prompt 0 has 600 tokens" in err


def test_options_of_full_models_are_refused_before_a_subcommand(rheo: Rheo) -> None:
    status, _, err = rheo("bench", "--limit", 3, "sampler")
    assert (status, err) == (2, "rheo: sampler does not take --limit\n")
