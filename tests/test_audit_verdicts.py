"""What `rheo audit` says of right, wrong and too short traces, in its status, its JSON and its page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.traces import ALPHA, contexts, cut, rows, run, saved, whole
from verify import eprocess, trace
from verify.lifetime import Plan
from verify.orders import mass_before
from verify.trace_writer import TraceWriter

pytestmark = pytest.mark.stat


def engine(path: Path, n: int, keep: float, seed: int) -> Path:
    """A trace as an engine writes it, of tokens drawn from keep * p + (1 - keep) * q."""
    rng = np.random.default_rng(seed)
    with TraceWriter(path, "p/q") as out:
        for _ in range(0, n, 50_000):
            p, q, tokens = contexts(rng, min(n, 50_000), keep)
            out.add(np.log(p), tokens, np.log(q))
    return path


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
