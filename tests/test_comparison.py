"""Acceptance before and after a change: intervals, pairing, and when a gate fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Rheo
from verify.acceptance import CONFIDENCE, change, estimate
from verify.comparison import ComparisonError, compared

pytestmark = pytest.mark.stat


def emitted(seed: int, accept: float, shards: int = 12, noise: float = 0.0) -> dict[int, tuple[int, int]]:
    """Shards of 2,000 rounds of one or two tokens; shards of one seed share most of their luck."""
    found = {}
    for i in range(shards):
        shared, own = np.random.default_rng([seed, i]), np.random.default_rng([seed, i, 1 + int(1e6 * noise)])
        luck = np.where(own.random(2_000) < noise, own.random(2_000), shared.random(2_000))
        found[i] = (2_000 + int((luck < accept).sum()), 2_000)
    return found


def record(verdict: str, *runs: dict[int, tuple[int, int]] | None) -> dict[str, Any]:
    trials = []
    for i, run in enumerate(runs):
        tau = None if run is None else estimate(run)
        trials.append({"toy": f"toy-{i}", "acceptance": tau and tau.record()})
    return {"schema": 2, "kind": "sampler", "subjects": [{"subject": "s", "verdict": verdict, "trials": trials}]}


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    runs = [estimate(emitted(seed, 0.4)) for seed in range(400)]
    covered = sum(run is not None and run.low <= 1.4 <= run.high for run in runs)
    missed = 400 - covered  # of 400 at 1%: more than 14 with probability < 1e-5
    assert missed <= 14
    assert missed < 400 * (1 - CONFIDENCE) + 10


def test_intervals_cover_the_truth_where_shards_differ_as_much_as_those_of_a_run() -> None:
    sizes = np.array([512, 3_584, 28_672, 65_536, 2_081])
    generator = np.random.default_rng(0)
    missed = [0, 0]
    for _ in range(2_000):
        old, new = (dict(enumerate(zip(sizes + generator.binomial(sizes, 0.4), sizes, strict=True))) for _ in "ab")
        run, changed = estimate(old), change([old], [new])
        assert run is not None
        assert changed is not None
        missed[0] += not run.low <= 1.4 <= run.high
        missed[1] += not changed.low <= 0 <= changed.high
    assert max(missed) <= 40  # of 2,000 at 1%: more with probability < 2e-5


def test_intervals_of_unpaired_noise_are_wider_than_those_of_pairs() -> None:
    old = emitted(1, 0.40)
    paired, apart = change([old], [emitted(1, 0.41)]), change([old], [emitted(2, 0.41)])
    assert paired is not None
    assert apart is not None
    assert paired.high - paired.low < (apart.high - apart.low) / 2
    assert paired.low <= 0.01 <= paired.high
    assert apart.low <= 0.01 <= apart.high


def test_only_shards_that_both_have_are_compared() -> None:
    old, new = emitted(1, 0.4), emitted(1, 0.4)
    new[99] = (4_000, 2_000)
    found = change([old], [new])
    assert found is not None
    assert found.change == 0
    assert change([old], [{77: (1, 1)}]) is None


def test_a_single_shard_has_no_interval() -> None:
    alone = estimate({0: (3, 2)})
    assert alone is not None
    assert (alone.tau, alone.record()["interval"]) == (1.5, None)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (0.40, 0.40, "same or better"),
        (0.40, 0.50, "same or better"),
        (0.40, 0.36, "worse"),
        (0.40, 0.389, "inconclusive"),
    ],
)
def test_the_gate_fails_when_acceptance_surely_fell_by_more_than_allowed(old: float, new: float, verdict: str) -> None:
    first, second = record("lossless", emitted(1, old)), record("lossless", emitted(1, new, noise=0.2))
    assert compared(first, second, 0.01)["verdict"] == verdict


@pytest.mark.parametrize("pair", [("lossless", "lossy"), ("lossless", "inconclusive"), ("inconclusive", "lossy")])
def test_a_verdict_that_became_worse_fails_whatever_acceptance_does(pair: tuple[str, str]) -> None:
    first, second = record(pair[0], emitted(1, 0.4)), record(pair[1], emitted(1, 0.6))
    assert compared(first, second, 0.01)["verdict"] == "worse"
    assert compared(second, first, 1.0)["verdict"] == "same or better"


def test_without_rounds_a_gate_on_acceptance_concludes_nothing() -> None:
    assert compared(record("lossless", None), record("lossless", None), 0.01)["verdict"] == "inconclusive"


def test_a_result_that_claims_less_or_was_stopped_concludes_nothing() -> None:
    old, new = record("lossless", emitted(1, 0.4)), record("lossless", emitted(1, 0.4))
    for result, tv in ((old, 0.005), (new, 0.02)):
        result["subjects"][0]["claims"] = {"tv": tv, "alpha": 1e-9, "beta": 1e-6}
    found = compared(old, new, 0.01)
    assert (found["verdict"], found["missing"]) == ("inconclusive", ["s: tv 0.02 was 0.005"])
    assert compared(new, old, 0.01)["verdict"] == "same or better"
    stopped = compared(new, {**old, "complete": False}, 0.01)
    assert (stopped["verdict"], stopped["missing"]) == ("inconclusive", ["NEW was not run to its end"])


def test_results_without_a_common_toy_cannot_be_compared() -> None:
    first, second = record("lossless", emitted(1, 0.4)), record("lossless", emitted(1, 0.4))
    second["subjects"][0]["trials"][0]["toy"] = "another"
    with pytest.raises(ComparisonError, match="no toy"):
        compared(first, second, 0.01)


def test_the_command_prints_a_table_and_ends_with_the_verdicts_status(rheo: Rheo, tmp_path: Path) -> None:
    paths = {}
    for name, accept in (("old", 0.4), ("same", 0.4), ("low", 0.3)):
        paths[name] = tmp_path / f"{name}.json"
        paths[name].write_text(json.dumps(record("lossless", emitted(1, accept))))
    status, out, err = rheo("compare", paths["old"], paths["same"])
    assert (status, err) == (0, "")
    assert "same or better" in out
    status, out, _ = rheo("compare", paths["old"], paths["low"], "--json", tmp_path / "change.json")
    assert status == 1
    written = json.loads((tmp_path / "change.json").read_text())
    assert written["subjects"][0]["change"]["mean"] == pytest.approx(-0.1, abs=0.02)


@pytest.mark.parametrize(
    ("key", "value"), [("verdict", "great"), ("tokens", ["a"] * 12), ("tokens", [1]), ("tokens", [float("inf")] * 12)]
)
def test_a_result_with_a_wrong_value_is_bad_input_in_one_line(
    rheo: Rheo, tmp_path: Path, key: str, value: object
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    written = record("lossless", emitted(1, 0.4))
    good.write_text(json.dumps(written))
    subject = written["subjects"][0]
    (subject if key in subject else subject["trials"][0]["acceptance"])[key] = value
    bad.write_text(json.dumps(written))
    status, out, err = rheo("compare", good, bad)
    assert (status, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"schema": 1, "subjects": []}', '{"schema": 2, "subjects": [{"subject": 1}]}', "null"],
)
def test_a_file_that_is_no_result_is_bad_input_in_one_line(rheo: Rheo, tmp_path: Path, text: str) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(record("lossless", emitted(1, 0.4))))
    bad.write_text(text)
    for pair in ((good, bad), (bad, good), (good, tmp_path / "missing.json")):
        status, out, err = rheo("compare", *pair)
        assert (status, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "bad_input"),
        (("trials", 0, "acceptance", "tokens"), [1]),
        (("trials", 0, "acceptance", "tokens"), ["x"] * 12),
        (("trials", 0, "acceptance", "tokens"), [10**400] * 12),
        (("trials", 0, "acceptance", "rounds"), [0] * 12),
        (("trials", 0, "acceptance", "tau"), "x"),
    ],
)
def test_a_result_with_a_wrong_value_is_bad_input_and_not_a_worse_sampler(
    rheo: Rheo, tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    good, bad = record("lossless", emitted(1, 0.4)), record("lossless", emitted(1, 0.4))
    place = bad["subjects"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    status, out, err = rheo("compare", tmp_path / "good.json", tmp_path / "bad.json")
    assert (status, out, err.count("\n")) == (2, "", 1), err


def test_a_comparison_does_not_replace_what_it_compares(rheo: Rheo, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(json.dumps(record("lossless", emitted(1, 0.4))))
    before = run.read_text()
    assert rheo("compare", run, run, "--json", run)[0] == 2
    assert run.read_text() == before


def test_what_the_new_run_left_out_is_not_passed() -> None:
    both, one = record("lossless", emitted(1, 0.4), emitted(2, 0.4)), record("lossless", emitted(1, 0.4))
    assert compared(both, one, 0.01)["verdict"] == "inconclusive"
    assert compared(both, one, 0.01)["missing"] == ["s: toy-1"]
    assert compared(one, both, 0.01)["verdict"] == "same or better"
    pair = {**one, "subjects": [*one["subjects"], {**one["subjects"][0], "subject": "t"}]}
    assert compared(pair, one, 0.01)["missing"] == ["t"]
