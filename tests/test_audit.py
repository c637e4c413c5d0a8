"""`rheo audit`: right traces pass, wrong ones do not, a lifetime survives being killed, and memory stays constant."""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import rheo.cli.audit as command
from tests import traces as helpers
from tests.traces import Columns, contexts, rows, run
from verify import eprocess, lifetime, trace
from verify.audit import StateError, audit, load, save
from verify.lifetime import BINS, Lifetime, Plan, count, findings, kolmogorov, uniforms
from verify.orders import mass_before
from verify.power import ks_detectable
from verify.trace_writer import TraceWriter

pytestmark = pytest.mark.stat

ALPHA, BETA = 1e-9, 1e-6


def saved(path: Path, columns: Columns) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)  # type: ignore[arg-type]
    else:
        listed = [values.tolist() for values in columns.values()]
        lines = (json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*listed, strict=True))
        path.write_text("".join(lines))
    return path


def cut(columns: Columns, *where: int) -> list[Columns]:
    edges = [0, *where, len(columns["p_token"])]
    return [{name: values[a:b] for name, values in columns.items()} for a, b in pairwise(edges)]


def whole(path: Path, plan: Plan, begun: Lifetime | None = None) -> Lifetime:
    """The lifetime after a trace, step by step."""
    state = begun or Lifetime(plan)
    for step in audit(state, path):
        state = step[0]
    return state


def engine(path: Path, n: int, keep: float, seed: int) -> Path:
    """A trace as an engine writes it, of tokens drawn from keep * p + (1 - keep) * q."""
    rng = np.random.default_rng(seed)
    with TraceWriter(path, "p/q") as out:
        for _ in range(0, n, 50_000):
            p, q, tokens = contexts(rng, min(n, 50_000), keep)
            out.add(np.log(p), tokens, np.log(q))
    return path


# What it finds, and how often it errs.


def test_a_right_trace_of_a_million_tokens_is_not_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = engine(tmp_path / "x.npz", 1_000_000, keep=1.0, seed=1)
    status, out, _ = run(capsys, path, "--tokens", 1_000_000, "--alpha", 1e-3)
    assert status == 0
    assert "verdict: lossless: no evidence against it" in out
    assert "1,000,000 tokens" in out


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_a_sampler_that_leans_to_its_draft_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    path = engine(tmp_path / f"x{suffix}", 100_000, keep=0.9, seed=2)
    assert run(capsys, path)[0] == 1
    status, _, err = run(capsys, path, "--tokens", 100_000, "--json", tmp_path / "out.json")
    record = json.loads((tmp_path / "out.json").read_text())
    assert (status, record["verdict"], record["order"]) == (1, "lossy", "p/q")
    assert [test["rejects"] for test in record["tests"]] == [True, True]
    assert err.count("rejects") == 2


def test_an_order_that_looks_at_what_was_drafted_fails_a_right_sampler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, n = np.random.default_rng(10), 20_000
    p, q, drafted = contexts(rng, n, keep=0.0)  # one token drafted from q, accepted with min(1, p/q)
    at = np.arange(n)
    residual = np.maximum(p - q, 0)
    others = (residual.cumsum(1) < rng.random((n, 1)) * residual.sum(1, keepdims=True)).sum(1).clip(0, 11)
    tokens = np.where(rng.random(n) < p[at, drafted] / q[at, drafted], drafted, others)
    statuses: dict[str, int] = {}
    for name, keys in (("p", p), ("p/q", p / q), ("drafted first", np.arange(12) == drafted[:, None])):
        columns = {"p_token": p[at, tokens], "p_before": mass_before(keys.astype(float), p, tokens)}
        path = saved(tmp_path / f"{len(statuses)}.npz", columns)
        statuses[name] = run(capsys, path, "--tokens", n)[0]
    assert statuses == {"p": 0, "p/q": 0, "drafted first": 1}


def test_the_e_process_raises_no_more_false_alarms_than_alpha_over_many_short_lives() -> None:
    rng = np.random.default_rng(3)
    alarms = sum(eprocess.update(eprocess.State(), rng.random(2_560)).rejects(0.05) for _ in range(2_000))
    assert alarms <= stats.binom.ppf(1 - 1e-6, 2_000, 0.05)


def tilted(rng: np.random.Generator, n: int, tilt: float) -> NDArray[np.float64]:
    """n values of density 1 + tilt cos(pi u)."""
    u, v = rng.random((2, 2 * n))
    kept = u[v * (1 + abs(tilt)) < 1 + tilt * np.cos(np.pi * u)][:n]
    assert len(kept) == n
    return np.asarray(kept)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_e_process_misses_no_oftener_than_its_detectable_distance_says(sign: int) -> None:
    rng, samples, alpha, beta = np.random.default_rng(4), 20_000, 1e-3, 0.1
    distance = eprocess.detectable(samples, alpha, beta)
    assert distance is not None
    missed, half = 0, 0
    for _ in range(300):
        missed += not eprocess.update(eprocess.State(), tilted(rng, samples, sign * math.pi * distance)).rejects(alpha)
        half += eprocess.update(eprocess.State(), tilted(rng, samples, sign * math.pi * distance / 2)).rejects(alpha)
    assert missed <= stats.binom.ppf(1 - 1e-6, 300, beta)
    assert half < 150  # the distance is not stated larger than it has to be


def test_too_few_samples_detect_nothing() -> None:
    assert eprocess.detectable(0, ALPHA, BETA) is None
    assert eprocess.detectable(eprocess.BLOCK, ALPHA, BETA) is None
    distances = [eprocess.detectable(10**n, ALPHA, BETA) for n in range(4, 10)]
    assert all(d is not None and 0 < d < 1 / math.pi for d in distances)
    assert distances == sorted(distances, key=lambda d: -(d or 0))


def test_the_histogram_gives_a_lower_bound_of_the_kolmogorov_distance_and_of_its_evidence() -> None:
    rng = np.random.default_rng(5)
    for n in (10, 1_000, 100_000):
        u = rng.random(n) ** 1.02
        distance, p_value = kolmogorov(np.bincount((u * BINS).astype(int), minlength=BINS))
        exact = stats.kstest(u, "uniform")
        assert exact.statistic - 1 / BINS <= distance <= exact.statistic + 1e-12
        assert p_value >= exact.pvalue


def test_the_kolmogorov_test_misses_no_oftener_than_it_says() -> None:
    rng, samples, alpha, beta = np.random.default_rng(6), 5_000, 1e-3, 0.1
    distance, missed = ks_detectable(samples, alpha, beta) + 1 / BINS, 0
    for _ in range(300):
        u = rng.random(samples)
        u = np.where(u < distance, 1 / (2 * BINS), u)  # the mass between the edges of a bin
        missed += kolmogorov(np.bincount((u * BINS).astype(int), minlength=BINS))[1] > alpha
    assert missed <= stats.binom.ppf(1 - 1e-6, 300, beta)


def test_both_tests_together_keep_alpha() -> None:
    rng, alarms = np.random.default_rng(7), 0
    for seed in range(500):
        values = rows(1_024, seed=int(rng.integers(2**31)))
        chunk = trace.Chunk(values, np.arange(1_024), "row", 1.0)
        state = count(Lifetime(Plan(0.1, seed, 1_024)), chunk, "x")
        found = findings(state, BETA)
        assert [finding.alpha for finding in found] == [0.05, 0.05]
        assert found[1].detectable == ks_detectable(1_024, 0.05, BETA) + 1 / BINS
        alarms += lifetime.verdict(state, found) == "lossy"
    assert alarms <= stats.binom.ppf(1 - 1e-6, 500, 0.1)


def test_the_randomisers_are_uniform_independent_and_a_function_of_seed_and_number() -> None:
    u = uniforms(1, 0, 100_000)
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.02
    assert u.min() >= 0
    assert u.max() < 1
    for first in (0, 1, 2, 3, 4, 77, 99_990):
        assert np.array_equal(uniforms(1, first, 10), u[first : first + 10])
    assert not np.array_equal(uniforms(2, 0, 10), u[:10])


def test_a_token_of_probability_zero_is_lossy_at_once_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {**rows(3), "request": np.array([5, 5, 6])}
    columns["p_token"][1:] = 0
    paths = [saved(tmp_path / f"{n}.npz", part) for n, part in enumerate(cut(columns, 2))]
    status, out, _ = run(capsys, *paths)
    assert status == 1
    assert "2 tokens of probability 0, the first in" in out
    assert "0.npz: row 1, request 5" in out.replace("\n", "")


def test_sums_that_exceed_1_by_rounding_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"p_token": np.full(500, 0.5), "p_before": np.where(np.arange(500) % 2, 0.5 + trace.TOLERANCE / 2, 0)}
    path = saved(tmp_path / "x.npz", columns)
    assert run(capsys, path, "--tokens", 500)[0] == 0
    assert whole(path, Plan(ALPHA, 0, 500)).bins.sum() == 500


# Verdicts.


def test_a_planned_number_of_tokens_is_tested_exactly_and_fewer_are_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = rows(6_000)
    wrong = {"p_token": np.full(4_000, 1e-6), "p_before": np.zeros(4_000)}  # every PIT value is near 0
    both = {name: np.concatenate([right[name], wrong[name]]) for name in right}
    path, out = saved(tmp_path / "x.npz", both), tmp_path / "out.json"
    run(capsys, path, "--tokens", 6_000, "--json", out)
    e_process, ks = json.loads(out.read_text())["tests"]
    assert (ks["tokens"], ks["rejects"]) == (6_000, False)
    assert (e_process["tokens"], e_process["rejects"]) == (10_000, True)
    assert json.loads(out.read_text())["verdict"] == "lossy"
    status, _, err = run(capsys, saved(tmp_path / "right.npz", right), "--tokens", 6_001, "--json", out)
    record = json.loads(out.read_text())
    assert (status, record["verdict"], len(record["tests"])) == (3, "inconclusive", 1)
    assert "6,001 tokens were planned" in err


def test_so_few_tokens_that_nothing_could_be_found_are_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "x.npz", rows(200))
    status, out, _ = run(capsys, path)
    assert status == 3
    assert "nothing" in out
    assert run(capsys, path, "--tokens", 200)[0] == 0  # Kolmogorov finds a distance of 0.44


def test_the_json_says_everything_and_the_table_comes_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = saved(tmp_path / "x.npz", rows(9_000)), tmp_path / "out.json"
    status, stdout, err = run(capsys, path, "--json", out, "--seed", 3, "--alpha", 1e-6)
    record = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert (status, stdout) == (0, "")
    assert "verdict: lossless" in err
    assert {key: record[key] for key in list(record)[:12]} == {
        "schema": 2, "kind": "audit", "verdict": "lossless", "complete": True, "alpha": 1e-6, "beta": 1e-6, "seed": 3,
        "order": None, "tokens": 9_000, "tokens_planned": None, "impossible": 0, "first_impossible": None,
    }  # fmt: skip
    (test,) = record["tests"]
    assert (test["test"], test["alpha"], test["rejects"]) == ("e-process", 1e-6, False)
    assert test["detectable"] == eprocess.detectable(9_000, 1e-6, 1e-6)
    assert record["traces"] == [{"trace": str(path), "counted": 9_000, "audited_before": False}]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--alpha", "nan"], ["--alpha", 0], ["--alpha", 5e-324], ["--alpha", 1], ["--alpha", "x"], ["--beta", 2],
        ["--tokens", 0], ["--seed", -1], ["--seed", 2**64], ["--json", "/no/x.json"], ["--state", "/dev/null"],
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_option_is_one_line_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[object]
) -> None:
    status, out, err = run(capsys, saved(tmp_path / "x.npz", rows(10)), *arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)


def test_an_input_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "x.npz", rows(10))
    before = path.read_bytes()
    for arguments in (["--json", path], ["--state", path], ["--state", tmp_path / "s", "--json", tmp_path / "s"]):
        status, _, err = run(capsys, path, *arguments)
        assert (status, len(err.splitlines())) == (2, 1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_audit_needs_no_torch(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", rows(9_000))
    code = (
        f"import sys; sys.argv = ['rheo', 'audit', {str(path)!r}]; from rheo.cli.main import main\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verdict: lossless" in done.stdout


# One lifetime.


def test_a_lifetime_is_the_same_wherever_its_traces_and_steps_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, columns = Plan(ALPHA, 5, 7_000), rows(9_000)
    expected = whole(saved(tmp_path / "x.npz", columns), plan)
    for step, places in ((997, [1]), (64, [255, 256, 257, 4_000]), (1 << 16, [3, 6, 6_999, 7_001])):
        monkeypatch.setattr(trace, "ROWS", step)
        state = Lifetime(plan)
        for number, part in enumerate(cut(columns, *places)):
            suffix = ".npz" if number % 2 else ".jsonl"
            state = whole(saved(tmp_path / f"{step}-{number}{suffix}", part), plan, state)
        assert state.eprocess == expected.eprocess
        assert np.array_equal(state.bins, expected.bins)


def test_a_saved_lifetime_is_gone_on_with_and_a_trace_is_counted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, state, out = rows(9_000), tmp_path / "state.json", tmp_path / "out.json"
    paths = [saved(tmp_path / f"{n}.npz", part) for n, part in enumerate(cut(columns, 2_000, 5_000))]
    for path in paths:
        assert run(capsys, path, "--state", state, "--tokens", 9_000)[0] == (0 if path == paths[-1] else 3)
    once = load(state)
    assert once.tokens == 9_000
    joined = whole(saved(tmp_path / "x.npz", columns), Plan(ALPHA, 0, 9_000))
    assert (once.eprocess, once.bins.tolist()) == (joined.eprocess, joined.bins.tolist())
    (tmp_path / "copy.npz").write_bytes(paths[1].read_bytes())
    for again in ([*paths], [tmp_path / "copy.npz"]):
        status, _, err = run(capsys, *again, "--state", state, "--tokens", 9_000, "--json", out)
        assert status == 0
        assert err.count("already audited") == len(again)
        assert [row["counted"] for row in json.loads(out.read_text())["traces"]] == [0] * len(again)
        assert load(state).eprocess == once.eprocess


def test_a_trace_given_twice_in_one_call_is_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "x.npz", rows(9_000))
    assert "9,000 tokens, alpha" in run(capsys, path, path)[1]


def test_of_a_log_that_has_grown_only_what_is_new_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state, columns = tmp_path / "log.jsonl", tmp_path / "state.json", rows(9_000)
    (tmp_path / "all.jsonl").touch()
    lines = saved(tmp_path / "all.jsonl", columns).read_text().splitlines(keepends=True)
    for end in (100, 5_000, 5_000, 9_000):
        path.write_text("".join(lines[:end]))
        run(capsys, path, "--state", state)
        assert load(state).tokens == end
    assert load(state).eprocess == whole(saved(tmp_path / "x.npz", columns), Plan(ALPHA, 0, None)).eprocess
    assert len(load(state).seen) == 1


def test_a_rejection_is_for_a_lifetime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    wrong = {"p_token": np.full(2_000, 0.5), "p_before": np.zeros(2_000)}
    assert run(capsys, saved(tmp_path / "wrong.npz", wrong), "--state", state)[0] == 1
    for seed in range(2):
        path = saved(tmp_path / f"{seed}.npz", rows(200_000, seed))
        assert run(capsys, path, "--state", state)[0] == 1
    peak = load(state).eprocess
    assert peak.log_evidence < peak.log_peak  # it would not reject now


def test_a_malformed_trace_counts_for_nothing_and_the_others_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "ROWS", 500)
    monkeypatch.setattr(command, "_SAVE_SECONDS", 0)
    first, second = cut(rows(9_000), 4_000)
    good, later = saved(tmp_path / "good.npz", first), saved(tmp_path / "later.npz", second)
    bad = {name: values.copy() for name, values in rows(3_000, 1).items()}
    bad["p_token"][2_700] = np.nan
    state, out = tmp_path / "state.json", tmp_path / "out.json"
    malformed = saved(tmp_path / "bad.npz", bad)
    status, stdout, err = run(capsys, good, malformed, later, "--state", state, "--json", out)
    record = json.loads(out.read_text())
    assert (status, stdout, record["verdict"], record["tokens"]) == (2, "", "bad_input", 9_000)
    assert "row 2700" in err.splitlines()[0]
    expected = whole(saved(tmp_path / "x.npz", rows(9_000)), Plan(ALPHA, 0, None))
    assert load(state).eprocess == expected.eprocess
    assert (len(load(state).seen), load(state).before) == (2, None)


def test_of_a_trace_that_was_left_off_and_is_malformed_nothing_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "ROWS", 500)
    columns, state = rows(3_000), tmp_path / "state.json"
    columns["p_token"][2_700] = np.nan
    good, bad = saved(tmp_path / "good.npz", rows(400, 1)), saved(tmp_path / "bad.npz", columns)
    begun = whole(good, Plan(ALPHA, 0, None))
    save(state, next(audit(begun, bad))[0])
    assert load(state).tokens == 900
    assert run(capsys, bad, "--state", state)[0] == 2
    assert repr(load(state)) == repr(begun)


def test_traces_ranked_in_another_order_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    first = saved(tmp_path / "p.npz", {**rows(100), "order": np.array("p")})
    other = saved(tmp_path / "q.npz", {**rows(100, 1), "order": np.array("p/q")})
    run(capsys, first, "--state", state)
    status, _, err = run(capsys, other, "--state", state)
    assert status == 2
    assert "its order is 'p/q', that of the traces before 'p'" in err
    assert load(state).tokens == 100


def test_a_state_of_another_plan_is_refused_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    path, other = saved(tmp_path / "x.npz", rows(100)), saved(tmp_path / "y.npz", rows(100, 1))
    run(capsys, path, "--state", state)
    before = state.read_bytes()
    for option, value in (("--alpha", 1e-6), ("--seed", 1), ("--tokens", 50)):
        status, out, err = run(capsys, other, "--state", state, option, value)
        assert (status, out) == (2, "")
        assert err.startswith(f"rheo: {state}: begun with {option} ")
        assert len(err.splitlines()) == 1
    assert state.read_bytes() == before


def test_a_damaged_state_is_refused_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, state, rng = saved(tmp_path / "x.npz", rows(1_000)), tmp_path / "state.json", np.random.default_rng(8)
    run(capsys, path, "--state", state, "--tokens", 1_000)
    good = state.read_bytes()
    damaged = [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, good.replace(b'"version": 1,', b'"version": 9,', 1)]
    damaged += [good[:cut_] for cut_ in rng.integers(1, len(good), 10)]
    for position in rng.integers(0, len(good), 40):
        changed = bytearray(good)
        changed[position] ^= 1
        damaged.append(bytes(changed))
    for wrong in damaged:
        state.write_bytes(wrong)
        status, out, err = run(capsys, path, "--state", state, "--tokens", 1_000)
        assert (status, out, len(err.splitlines())) == (2, "", 1), wrong[:80]
        assert err.startswith(f"rheo: {state}: ")
        assert state.read_bytes() == wrong


def test_saving_and_loading_change_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", rows(1_000))
    for plan in (Plan(0.1, 2**64 - 1, None), Plan(1e-9, 0, 300)):
        for state, _ in audit(Lifetime(plan), path):
            save(tmp_path / "state.json", state)
            again = load(tmp_path / "state.json")
            assert repr(again) == repr(state)
            assert np.array_equal(again.bins, state.bins)
    with pytest.raises(StateError, match=r"x\.npz"):
        load(path)


# Interrupted and killed.


def test_an_interrupt_saves_what_was_counted_and_the_next_call_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "ROWS", 1_000)
    path, state, out = saved(tmp_path / "x.npz", rows(9_000)), tmp_path / "state.json", tmp_path / "out.json"
    update, calls = eprocess.update, []

    def interrupted(*arguments: Any) -> eprocess.State:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return update(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(eprocess, "update", interrupted)
        status, stdout, err = run(capsys, path, "--state", state, "--json", out)
    record = json.loads(out.read_text())
    assert (status, stdout, err.strip()) == (130, "", "rheo: interrupted")
    assert (record["verdict"], record["complete"], record["tokens"]) == ("interrupted", False, 3_000)
    assert record["unfinished"] == [{"trace": str(path), "rows": 3_000}]
    assert load(state).tokens == 3_000
    assert run(capsys, path, "--state", state)[0] == 0
    assert repr(load(state)) == repr(whole(path, Plan(ALPHA, 0, None)))


def test_a_trace_that_was_left_off_is_shown_and_what_was_counted_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "ROWS", 1_000)
    left = saved(tmp_path / "left.npz", rows(3_000))
    other, state = saved(tmp_path / "other.npz", rows(500, 1)), tmp_path / "state.json"
    save(state, next(audit(Lifetime(Plan(ALPHA, 0, None)), left))[0])
    _, out, _ = run(capsys, other, "--state", state)
    assert "left off after 1,000 rows" in out
    assert load(state).tokens == 1_500
    assert "left off" not in run(capsys, left, "--state", state)[1]
    assert load(state).tokens == 3_500


def test_runs_killed_at_20_random_points_and_resumed_end_as_one_that_was_not(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")  # children that need not import everything again
    context.set_forkserver_preload(["tests.traces", "rheo.cli.audit", "verify.audit", "reports.console_audit"])
    first, second = cut(rows(9_000), 4_000)
    paths, tokens = [saved(tmp_path / "x.npz", first), saved(tmp_path / "y.jsonl", second)], 7_000
    expected = whole(paths[1], Plan(ALPHA, 0, tokens), whole(paths[0], Plan(ALPHA, 0, tokens)))
    state, rng = tmp_path / "state.json", np.random.default_rng(9)
    save(state, Lifetime(expected.plan))
    places: list[int] = []
    for attempt in range(21):
        enough = load(state).tokens + int(rng.integers(1, 300))
        process = context.Process(target=helpers.audit_in_small_steps, args=(paths, state, tokens))
        process.start()
        if attempt < 20:
            while process.is_alive() and load(state).tokens < enough:
                time.sleep(0.001)
            time.sleep(float(rng.random()) * 0.01)  # anywhere between two savings, or within one
            process.kill()
        process.join()
        places.append(load(state).tokens)
    assert process.exitcode == 0
    save(tmp_path / "expected.json", expected)
    assert state.read_bytes() == (tmp_path / "expected.json").read_bytes()
    assert len(set(places)) > 15


# What it costs.


@pytest.mark.parametrize(("suffix", "n"), [(".npz", 200_000), (".jsonl", 50_000)])
def test_memory_does_not_grow_with_the_trace(tmp_path: Path, suffix: str, n: int) -> None:
    peaks = []
    for size in (n, 4 * n):
        path = saved(tmp_path / f"{size}{suffix}", rows(size))
        tracemalloc.start()
        whole(path, Plan(ALPHA, 0, size))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def seconds(work: Callable[[], object]) -> float:
    """The least processor time that something took."""
    best = math.inf
    for _ in range(5):
        gc.collect()
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def test_an_npz_takes_a_few_times_what_reading_and_transforming_it_in_one_piece_takes(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", rows(500_000))

    def floor() -> None:
        with np.load(path) as columns:
            p_token, p_before = columns["p_token"], columns["p_before"]
        pit = p_before + np.random.default_rng(0).random(len(p_token)) * p_token
        np.bincount((pit * 256).astype(np.intp))

    assert seconds(lambda: whole(path, Plan(ALPHA, 0, None))) < 8 * seconds(floor)  # measured: 4.4


def test_jsonl_takes_less_than_parsing_it_line_by_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.jsonl", rows(50_000))
    lines = path.read_text().splitlines()
    floor = seconds(lambda: [json.loads(line) for line in lines])
    assert seconds(lambda: whole(path, Plan(ALPHA, 0, None))) < 0.85 * floor  # measured: 0.52


def test_the_page_of_an_audit_shows_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    from reports.page import render
    from reports.schema import load as load_run

    columns = rows(9_000)
    columns["p_token"][4_000] = 0
    path, out = saved(tmp_path / "x.npz", columns), tmp_path / "out.json"
    assert run(capsys, path, "--json", out, "--tokens", 9_000)[0] == 1
    page = render(load_run(out), "out.json")
    for shown in ("e-process", "Kolmogorov", "p-value", "e-value now", "rejects at 2 000 000 000", "row 4000", "<svg"):
        assert shown in page.replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\N{THIN SPACE}", " "), shown


def test_the_json_of_evidence_beyond_all_numbers_can_be_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jsonschema")
    from reports.schema import load as load_run

    path, out = saved(tmp_path / "x.npz", {**rows(9_000), "p_before": np.zeros(9_000)}), tmp_path / "out.json"
    assert run(capsys, path, "--json", out)[0] == 1
    assert load_run(out)["peak"] == 1e300


def test_the_page_of_an_audit_of_bad_input_acquits_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    from reports.page import render
    from reports.schema import load as load_run

    path, out = saved(tmp_path / "x.npz", rows(300)), tmp_path / "out.json"
    assert run(capsys, path, tmp_path / "missing.npz", "--json", out)[0] == 2
    page = render(load_run(out), "out.json")
    assert "no departure" not in page
    assert "missing.npz" in page
