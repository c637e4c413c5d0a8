"""The pytest plugin, as another project uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from . import samplers

pytestmark = pytest.mark.stat

ROOT = Path(__file__).parents[1]

ELSEWHERE = """
import numpy as np
import pytest
from verify.joint import joint_law

class Mine:
    def __init__(self, dial):
        self.dial = dial

    def sample(self, toy, length, count, seed):
        law = joint_law(toy, 1.0, length)
        law[law.argmax()] += self.dial
        cells = np.random.default_rng(seed).choice(len(law), count, p=law / law.sum())
        return np.stack(np.unravel_index(cells, (toy.vocab,) * length), axis=1)

@pytest.mark.stat
@pytest.mark.parametrize("dial", [0.0, 0.3])
def test_mine(lossless_gate, dial):
    lossless_gate(lambda config: Mine(dial), toys=[{toy!r}], tv=0.1, config={{"temperature": 1}})
"""


def test_another_project_gates_its_sampler_in_a_line(tmp_path: Path) -> None:
    from verify.battery import BATTERY

    toy = min(BATTERY, key=lambda trial: trial.cells).name
    (tmp_path / "test_mine.py").write_text(ELSEWHERE.format(toy=toy))
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", "-n", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "lossy: said of a right sampler with probability <= 1e-09" in done.stdout
    assert "guess:" in done.stdout


def test_the_gate_returns_what_it_found(lossless_gate) -> None:  # type: ignore[no-untyped-def]
    found = lossless_gate(samplers.with_rounds, toys=["contexts"], tv=0.1, config={"tau": 3})
    assert found["verdict"] == "lossless"
    assert found["trials"][0]["acceptance"]["tau"] == 3


def test_the_gate_fails_where_nothing_can_be_concluded(lossless_gate) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(pytest.fail.Exception, match="inconclusive"):
        lossless_gate(samplers.right, seconds=1e-9)
    with pytest.raises(pytest.fail.Exception, match="raised RuntimeError"):
        lossless_gate(samplers.wrong, config={"how": "raises"})
    with pytest.raises(ValueError, match="no toy none"):
        lossless_gate(samplers.right, toys=["none"])


def test_the_gate_runs_a_spec_in_processes(lossless_gate) -> None:  # type: ignore[no-untyped-def]
    found = lossless_gate("tests.samplers:right", toys=["contexts"], tv=0.1, jobs=1)
    assert found["subject"] == "tests.samplers:right"


def test_the_plugin_loads_nothing_heavy_before_it_is_used() -> None:
    code = "import sys, verify.pytest_plugin; assert not {'torch', 'scipy', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_toys_may_come_one_by_one_and_none_is_an_error(lossless_gate) -> None:  # type: ignore[no-untyped-def]
    found = lossless_gate(samplers.right, toys=(name for name in ["contexts"]), tv=0.1)
    assert [trial["toy"] for trial in found["trials"]] == ["contexts"]
    with pytest.raises(ValueError, match="no toys"):
        lossless_gate(samplers.right, toys=[])
