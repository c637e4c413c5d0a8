"""A benchmark measures fairly: its baseline is plain decoding, methods take turns, times and intervals are right."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import ttest_1samp

from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models import target as target_module
from rheo.models.generation import Limits, generate
from tests.tiny_models import CONFIG, PROMPTS, VOCAB, keep_a_stale_row, tiny_pair
from verify.benchmark import stats
from verify.benchmark.autoregressive import NoDrafter, play_token
from verify.benchmark.clock import Seconds, Watched, split
from verify.benchmark.contexts import compare
from verify.benchmark.floor import numeric_floor
from verify.benchmark.plan import ABLATIONS, Plan, Question, units, variants
from verify.benchmark.text_figures import table
from verify.benchmark.texts import Models

pytestmark = pytest.mark.model

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
    return tiny_pair()


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


def test_a_speed_up_compares_the_turns_that_both_have_finished() -> None:
    turns = (Question("q", (1,)), Question("q", (), 2, ("one", "two")))
    plan = replace(PLAN, suites={"a": turns}, methods=("ar", "rheo"), seeds=1)
    seconds = {("ar", 1): 8.0, ("ar", 2): 1.0, ("rheo", 1): 2.0}  # of 8 tokens; rheo has not come to the second turn
    texts = [
        (unit, {"rounds": 4, "emitted": 8, "expected": None, "timed": {**asdict(Seconds(verify=spent)), "tokens": 8}})
        for unit in units(plan)
        if unit.kind == "text" and (spent := seconds.get((unit.method, unit.question.turn)))
    ]
    assert len(texts) == 3
    assert [row["speedup"] for row in table(plan, texts, "a")] == [1.0, 4.0]


def test_the_numeric_floor_is_low_and_shows_a_stale_cache(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    found = numeric_floor(models, PLAN, "rheo", PROMPTS[0], 1)
    assert found["tokens"] == 12
    assert found["largest"] < 1e-4
    monkeypatch.setattr(target_module, "keep", keep_a_stale_row)
    assert numeric_floor(models, replace(PLAN, max_new_tokens=40), "rheo", PROMPTS[0], 1)["largest"] > 1e-2


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
