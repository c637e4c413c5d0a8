"""`rheo verify --sampler`: verdicts, replays, checkpoints, interrupts, and samplers that break their promises."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Rheo
from verify import checkpoint, replay
from verify.battery import BATTERY
from verify.executors import Here, cluster, processes
from verify.plan import Claims, planned
from verify.run import run
from verify.tally import Tally

from . import samplers

pytestmark = pytest.mark.stat

ROOT = Path(__file__).parents[1]
SAMPLERS = str(ROOT / "tests" / "samplers.py")
SMALL = min(BATTERY, key=lambda trial: trial.cells).name
LOOSE = ("--toy", SMALL, "--tv", "0.05", "--alpha", "1e-6", "--beta", "1e-3")


@pytest.mark.usefixtures("here")
def test_a_right_sampler_is_lossless_with_its_error_rates_said(rheo: Rheo, tmp_path: Path) -> None:
    status, out, err = rheo("verify", "--sampler", f"{SAMPLERS}:right", *LOOSE)
    assert (status, err) == (0, "")
    assert "no deviation of TV >= 0.05: alpha 1e-06, beta 0.001" in " ".join(out.split())


@pytest.mark.usefixtures("here")
def test_a_lossy_sampler_is_found_and_its_replay_finds_it_again(rheo: Rheo, tmp_path: Path) -> None:
    arguments = ("verify", "--sampler", f"{SAMPLERS}:right", *LOOSE, "--config", '{"dial": 0.05}')
    status, _, _ = rheo(*arguments, "--failures", tmp_path, "--json", tmp_path / "first.json")
    assert status == 1
    first = json.loads((tmp_path / "first.json").read_text())
    (again,) = first["replay"]
    path = again["command"].split()[-1]
    status, _, _ = rheo("verify", "--replay", path, "--failures", tmp_path / "more", "--json", tmp_path / "second.json")
    second = json.loads((tmp_path / "second.json").read_text())
    assert status == 1
    (before,), (after,) = first["subjects"][0]["trials"], second["subjects"][0]["trials"]
    assert before["worst_cell"] == after["worst_cell"]
    # Another sampler may be put in the lossy one's place, as when it has been mended.
    status, _, _ = rheo("verify", "--replay", path, "--sampler", "verify.subjects:torch_sampler")
    assert status == 0


@pytest.mark.usefixtures("here")
def test_a_verdict_is_not_lost_where_its_replay_cannot_be_saved(rheo: Rheo, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    arguments = ("verify", "--sampler", f"{SAMPLERS}:right", *LOOSE, "--config", '{"dial": 0.2}')
    status, _, err = rheo(*arguments, "--failures", tmp_path / "file" / "in", "--json", tmp_path / "result.json")
    assert status == 1
    assert "rheo: --failures:" in err
    assert json.loads((tmp_path / "result.json").read_text())["verdict"] == "lossy"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("key", "value"),
    [("sizes", []), ("sizes", [0]), ("sizes", [-5]), ("sizes", [10, 5]), ("seed", -1), ("seed", 1e999), ("length", 0)],
)
def test_a_replay_that_would_sample_nothing_is_bad_input(rheo: Rheo, tmp_path: Path, key: str, value: object) -> None:
    path = replay.save(planned(f"{SAMPLERS}:right", BATTERY[:1], Claims(tv=0.2), 0), 0, 2, tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    status, out, err = rheo("verify", "--replay", path)
    assert (status, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.usefixtures("here")
def test_time_that_runs_out_is_inconclusive(rheo: Rheo) -> None:
    status, out, _ = rheo("verify", "--sampler", "verify.subjects:reference", "--time", "0.01")
    assert status == 3
    assert "s more would settle it" in " ".join(out.split())


@pytest.mark.usefixtures("here")
def test_a_case_files_toy_can_be_sampled_on(rheo: Rheo, tmp_path: Path) -> None:
    case = ROOT / "verify" / "data" / "toys" / "ties.json"
    where = ("--json", tmp_path / "run.json")
    status, _, _ = rheo("verify", case, "--sampler", "verify.subjects:torch_sampler", "--tv", "0.1", *where)
    (trial,) = json.loads((tmp_path / "run.json").read_text())["subjects"][0]["trials"]
    assert (status, trial["status"]) == (0, "lossless")
    assert trial["settings"]["budget"] == json.loads(case.read_text())["config"]["budget"]
    assert trial["acceptance"]["tau"] > 1


BROKEN = [
    ("{0}:none", "has no factory none"),
    ("{0}:NO_FACTORY", "has no factory"),
    ("{0}", "package.module:factory"),
    ("nowhere.at.all:right", "cannot be imported"),
    ("nowhere.py:right", "no file nowhere.py"),
    (":right", "package.module:factory"),
    ("math:sqrt", "the factory raised TypeError"),
    ("json:dumps", "has no method sample"),
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("spec", "reason"), BROKEN, ids=[spec for spec, _ in BROKEN])
def test_a_sampler_that_cannot_be_had_is_bad_input_in_one_line(rheo: Rheo, spec: str, reason: str) -> None:
    status, out, err = rheo("verify", "--sampler", spec.format(SAMPLERS))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert reason in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tv", "0"),
        ("--alpha", "1"),
        ("--beta", "x"),
        ("--toy", "none"),
        ("--config", "{"),
        ("--config", "[1]"),
        ("--config", "missing.json"),
        ("--config", '{"temperature": "warm"}'),
        ("--config", '{"temperature": "1/0"}'),
        ("--config", '{"temperature": null}'),
        ("--config", '{"temperature": 1e400}'),
        ("--replay", "missing.json"),
        ("--replay", str(ROOT / "tox.ini")),
        ("--replay", str(ROOT / "verify" / "data" / "toys" / "ties.json")),
        ("missing.json",),
        ("--checkpoint", str(ROOT / "pyproject.toml")),
        ("--checkpoint", "no/such/folder.json"),
        ("--checkpoint", "same.json", "--json", "same.json"),
        ("--config", '{"temperature": -1}'),
        ("--json", "no/such/folder.json"),
        ("--time", "-1"),
        ("--dask", "tcp://127.0.0.1:1"),
    ],
    ids=" ".join,
)
def test_a_bad_request_is_one_line(rheo: Rheo, arguments: tuple[str, ...]) -> None:
    status, out, err = rheo("verify", "--sampler", f"{SAMPLERS}:right", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.parametrize("option", [("--tv", "0.1"), ("--seed", "1"), ("--config", "{}"), ("--checkpoint", "x")])
def test_options_without_a_sampler_are_refused_rather_than_ignored(rheo: Rheo, option: tuple[str, str]) -> None:
    status, _, err = rheo("verify", *option)
    assert (status, err.count("\n")) == (2, 1)
    assert "is for --sampler" in err


@pytest.mark.parametrize(
    ("how", "reason"),
    [("hangs", "hangs"), ("dies", "its process died"), ("raises", "raised RuntimeError: no luck")],
)
def test_a_sampler_that_hangs_dies_or_raises_in_its_process_is_bad_input(rheo: Rheo, how: str, reason: str) -> None:
    config = json.dumps({"how": how})
    status, out, err = rheo(
        "verify", "--sampler", f"{SAMPLERS}:wrong", "--config", config, "--patience", "1", "--jobs", "1", *LOOSE
    )
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert reason in err


def same(first: tuple[Tally, ...], second: tuple[Tally, ...]) -> bool:
    return all(
        np.array_equal(a.cells, b.cells)
        and np.array_equal(a.pairs, b.pairs)
        and (a.digests, a.pit) == (b.digests, b.pit)
        for a, b in zip(first, second, strict=True)
    )


def test_one_process_many_and_a_cluster_give_the_same_counts() -> None:
    from distributed import LocalCluster

    plan = planned("tests.samplers:with_rounds", BATTERY[:3], Claims(tv=0.05, alpha=1e-6), 3)
    *_, alone = run(plan, Here(), 1)
    with processes(2) as pool:
        *_, many = run(plan, pool, 2)
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc"
        ) as local,
        cluster(local.scheduler_address) as workers,
    ):
        *_, far = run(plan, workers, 2)
    assert alone.looks == many.looks == far.looks == plan.looks
    assert same(alone.tallies, many.tallies)
    assert same(alone.tallies, far.tallies)


def test_a_run_stopped_anywhere_goes_on_to_the_same_end(tmp_path: Path) -> None:
    plan = planned(samplers.with_rounds, BATTERY[:3], Claims(tv=0.05, alpha=1e-6), 3)
    path = tmp_path / "checkpoint.json"
    *_, whole = steps = list(run(plan, Here(), 1))
    for progress in steps[::3]:
        checkpoint.save(path, plan, progress)
        *_, end = run(plan, Here(), 1, start=checkpoint.load(path, plan))
        assert same(end.tallies, whole.tallies)
        assert end.tests == whole.tests


@pytest.mark.parametrize("change", ["seed", "claims", "trials", "sampler"])
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, change: str) -> None:
    path, claims = tmp_path / "checkpoint.json", Claims(tv=0.1)
    plan = planned("tests.samplers:right", BATTERY[:2], claims, 0)
    *_, last = run(plan, Here(), 1)
    checkpoint.save(path, plan, last)
    other = {
        "seed": planned("tests.samplers:right", BATTERY[:2], claims, 1),
        "claims": planned("tests.samplers:right", BATTERY[:2], Claims(tv=0.1, beta=1e-5), 0),
        "trials": planned("tests.samplers:right", BATTERY[1:3], claims, 0),
        "sampler": planned("tests.samplers:with_rounds", BATTERY[:2], claims, 0),
    }[change]
    with pytest.raises(checkpoint.CheckpointError, match=change):
        checkpoint.load(path, other)


def test_damaged_checkpoints_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    plan = planned("tests.samplers:right", BATTERY[:2], Claims(tv=0.1), 0)
    *_, last = run(plan, Here(), 1)
    checkpoint.save(path, plan, last)
    whole, rng = path.read_text(), random.Random(0)
    for cut in [0, 1, *(rng.randrange(len(whole) - 2) for _ in range(20))]:
        path.write_text(whole[:cut])
        with pytest.raises(checkpoint.CheckpointError) as error:
            checkpoint.load(path, plan)
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_killing_a_run_at_20_random_points_loses_nothing(tmp_path: Path) -> None:
    """Real kills of the real command, each resumed; the end is that of a run left alone."""
    command = [sys.executable, "-m", "rheo.cli.main", "verify", "--sampler", "verify.subjects:torch_sampler"]
    command += ["--toy", SMALL, "--tv", "0.005", "--jobs", "2", "--time", "600", "--json", str(tmp_path / "end.json")]
    rng, kills = random.Random(0), 0
    checkpointed = [*command, "--checkpoint", str(tmp_path / "checkpoint.json")]
    while kills < 20:
        process = subprocess.Popen(checkpointed, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(5 + 5 * rng.random())
            (tmp_path / "checkpoint.json").unlink()  # it came to its end: begin again
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert subprocess.run(checkpointed, cwd=ROOT, check=False, capture_output=True).returncode == 0
    resumed = json.loads((tmp_path / "end.json").read_text())
    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == 0
    alone = json.loads((tmp_path / "end.json").read_text())
    assert resumed["subjects"][0]["trials"] == alone["subjects"][0]["trials"]


def test_an_interrupt_leaves_a_valid_result_marked_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "rheo.cli.main", "verify", "--sampler", f"{SAMPLERS}:right", "--tv", "0.001"]
    process = subprocess.Popen(
        [*command, "--json", str(path), "--jobs", "1"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, "rheo: interrupted")
    record = json.loads(path.read_text())
    assert (record["complete"], record["verdict"]) == (False, "inconclusive")


@pytest.mark.parametrize(
    "option", [("--tv", "0.1"), ("--seed", "1"), ("--config", "{}"), ("--toy", "ties")], ids=" ".join
)
def test_what_a_replay_brings_itself_is_refused_beside_it(rheo: Rheo, tmp_path: Path, option: tuple[str, str]) -> None:
    status, _, err = rheo("verify", "--replay", tmp_path / "missing.json", *option)
    assert (status, err.count("\n")) == (2, 1)
    assert "comes from --replay" in err
