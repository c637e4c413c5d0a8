"""A lifetime counts every row once, however its traces are cut, malformed, saved, interrupted or killed."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rheo.cli.audit as command
from tests import traces as helpers
from tests.traces import ALPHA, cut, rows, run, saved, whole
from verify import eprocess, trace
from verify.audit import StateError, audit, load, save
from verify.lifetime import Lifetime, Plan

pytestmark = pytest.mark.stat


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
