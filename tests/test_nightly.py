"""A sampler night after night: one lifetime, whatever it is cut into."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Rheo
from verify.audit import load, save
from verify.battery import BATTERY, Trial
from verify.contract import SamplerError
from verify.executors import Here
from verify.lifetime import Lifetime, Plan
from verify.nightly import TOKENS, night, nights
from verify.plan import with_settings
from verify.shards import Shard
from verify.toys import Table, Toy

pytestmark = pytest.mark.stat

RIGHT = "tests.samplers:right"


def lived(shards: int, lifetime: Lifetime, sampler: str = RIGHT) -> Lifetime:
    steps = nights(lifetime, sampler, BATTERY, Here(), 3, limit=1_000)
    for _ in range(shards):
        lifetime = next(steps)
    return lifetime


def test_every_trial_fills_a_shard_of_the_same_size() -> None:
    for number, trial in enumerate(BATTERY):
        chunk = night(Shard(RIGHT, trial, 0, number, TOKENS // trial.length, 1))
        assert len(chunk) == TOKENS
        total = chunk.columns["p_before"] + chunk.columns["p_token"]
        assert (chunk.columns["p_token"] > 0).all()
        assert (total <= 1 + 1e-12).all()


def test_a_life_of_many_nights_is_that_of_one(tmp_path: Path) -> None:
    whole = lived(12, Lifetime(Plan(1e-9, 5, None)))
    cut = Lifetime(Plan(1e-9, 5, None))
    for shards in (1, 4, 2, 5):
        cut = lived(shards, cut)
        save(tmp_path / "state.json", cut)
        cut = load(tmp_path / "state.json")
    assert cut.eprocess == whole.eprocess
    assert whole.tokens == 12 * TOKENS


def test_no_seed_is_used_twice() -> None:
    seeds = {Shard(RIGHT, BATTERY[n % len(BATTERY)], 0, n, 1, 5).sampler_seed for n in range(2_000)}
    assert len(seeds) == 2_000


def test_a_right_sampler_lives_and_a_lossy_one_does_not() -> None:
    right = lived(16, Lifetime(Plan(1e-6, 0, None)))
    assert not right.eprocess.rejects(1e-6)
    trials = with_settings(BATTERY, {"dial": 0.05})
    *_, dead = nights(Lifetime(Plan(1e-6, 0, None)), RIGHT, trials, Here(), 1, limit=100)
    assert dead.eprocess.rejects(1e-6)


def test_a_token_that_cannot_be_ends_a_life_at_once() -> None:
    toy = Toy(3, Table((2, 1, 0), {}), Table((1, 1, 1), {}))
    trial = Trial("last-is-impossible", toy, 2, {"how": "impossible"})
    lives = list(nights(Lifetime(Plan(1e-6, 0, None)), "tests.samplers:wrong", [trial], Here(), 1, limit=100))
    assert len(lives) == 1
    assert lives[0].impossible == 8


def test_a_trial_that_does_not_fill_a_shard_is_refused() -> None:
    toy = Toy(2, Table((1, 1), {}), Table((1, 1), {}))
    with pytest.raises(ValueError, match="do not fill"):
        next(nights(Lifetime(Plan(1e-6, 0, None)), RIGHT, [Trial("seven", toy, 7, {})], Here(), 1, limit=1))


def test_a_sampler_that_raises_is_named() -> None:
    with pytest.raises(SamplerError, match="raised RuntimeError"):
        next(
            nights(
                Lifetime(Plan(1e-6, 0, None)), "tests.samplers:wrong", with_settings(BATTERY, {"how": "raises"}),
                Here(), 1, limit=1,
            )
        )  # fmt: skip


def test_the_command_keeps_a_life_and_refuses_to_mix_it_with_another(rheo: Rheo, tmp_path: Path) -> None:
    state, result = tmp_path / "life.json", tmp_path / "run.json"
    for night_number in (1, 2):
        status, out, err = rheo("nightly", RIGHT, state, "--time", "3", "--json", result)
        assert (status, out) == (0, ""), err
        record = json.loads(result.read_text())
        assert record["tokens"] >= night_number * TOKENS
    assert record["tokens"] > record["traces"][0]["counted"] > 0
    status, _, err = rheo("nightly", "tests.samplers:with_rounds", state, "--time", "1")
    assert (status, err.count("\n")) == (2, 1)
    assert "the lifetime of another" in err
    assert np.isfinite(record["log10_e_value"])


def test_a_state_of_nights_takes_no_traces_and_one_of_traces_no_nights(rheo: Rheo, tmp_path: Path) -> None:
    trace, nightly, audited = tmp_path / "trace.jsonl", tmp_path / "nightly.json", tmp_path / "audited.json"
    trace.write_text('{"p_token": 1, "p_before": 0}\n')  # no order is stated
    lifetime = lived(1, Lifetime(Plan(1e-9, 0, None), order="p/q of x {}"))
    save(nightly, lifetime)
    status, _, err = rheo("audit", trace, "--state", nightly)
    assert (status, "its order is" in err) == (2, True)
    assert load(nightly).eprocess == lifetime.eprocess
    assert rheo("audit", trace, "--state", audited)[0] == 3
    status, _, err = rheo("nightly", RIGHT, audited, "--time", 1)
    assert (status, err.splitlines()) == (2, [f"rheo: {audited}: the lifetime of another: traces"])


def test_a_result_of_a_sampler_that_fails_says_so(rheo: Rheo, tmp_path: Path) -> None:
    result = tmp_path / "run.json"
    status, _, err = rheo("nightly", "tests.samplers:NO_FACTORY", tmp_path / "life.json", "--json", result)
    record = json.loads(result.read_text())
    assert (status, record["verdict"], record["complete"]) == (2, "bad_input", False)
    assert err == f"rheo: {record['bad_input'][0]}\n"


@pytest.mark.parametrize("option", ["--alpha", "--time", "--patience"])
def test_a_nan_is_no_setting_of_a_lifetime(rheo: Rheo, tmp_path: Path, option: str) -> None:
    status, out, err = rheo("nightly", RIGHT, tmp_path / "life.json", option, "nan")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "life.json").exists()
