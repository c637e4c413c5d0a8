"""Break one line of the project at a time and see its own tests fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGES = ("reference", "rheo", "verify", "properties", "reports", "tests")
TESTS = (
    "tests/test_reference.py",
    "tests/test_controls.py",
    "tests/test_laws.py",
    "tests/test_classes.py",
    "tests/test_torch_law.py",
    "tests/test_parity.py",
)


@dataclass(frozen=True)
class Mutation:
    fault: str
    file: str
    right: str
    wrong: str


MUTATIONS = [
    Mutation(
        "reference accepts on u <= a",
        "reference/choose.py",
        "np.count_nonzero(cumulative <= uniform * cumulative[-1])",
        "np.count_nonzero(cumulative < uniform * cumulative[-1])",
    ),
    Mutation(
        "torch accepts on u <= a",
        "rheo/rules/children.py",
        "(coin.unsqueeze(-1) < ratio)",
        "(coin.unsqueeze(-1) <= ratio)",
    ),
    Mutation(
        "reference draws from q, not from the renormalised tail",
        "reference/growths/rheo.py",
        "tail_law=temper(tail_q, config.temperature)",
        "tail_law=tail_q",
    ),
    Mutation(
        "torch draws from q, not from the renormalised tail",
        "rheo/growths/rheo.py",
        "law = temper(draft.logits[..., m:], draft.candidate[..., m:], float(config.temperature))",
        "law = draft.q[..., m:]",
    ),
    Mutation(
        "reference verifies against q untempered",
        "reference/growths/rheo.py",
        "tail_law=temper(tail_q, config.temperature)",
        "tail_law=temper(tail_q, 1)",
    ),
    Mutation(
        "reference scores the probe by its true probability",
        "reference/slots.py",
        "int(plan.tail[probe]), plan.proxy)]",
        "int(plan.tail[probe]), plan.tail_scores[probe])]",
    ),
    Mutation(
        "torch scores the probe by its true probability",
        "rheo/slots.py",
        "scores[..., plan.anchors] = plan.proxy",
        "scores[..., plan.anchors] = scores[..., plan.anchors]",
    ),
    Mutation(
        "reference breaks ties by token", "reference/order.py", "node.depth, node.path)", "node.depth, node.tokens)"
    ),
    Mutation(
        "torch breaks ties by token",
        "rheo/growth.py",
        "ranking_keys(child_scores, behind, occupied)",
        "ranking_keys(child_scores, LAST_POSITION - slots.tokens.flatten(1), occupied)",
    ),
    Mutation(
        "torch compares scores to the last bit",
        "rheo/order.py",
        "rounded = (scores.view(torch.int64) + (1 << (DROPPED_BITS - 1))) & -(1 << DROPPED_BITS)",
        "rounded = scores.view(torch.int64)",
    ),
    Mutation(
        "reference leaves the residual unclamped",
        "reference/distributions.py",
        "np.maximum(p - q, 0 * p)",
        "abs(p - q)",
    ),
    Mutation(
        "torch leaves the residual unclamped",
        "rheo/distributions.py",
        "torch.maximum(inside - law, inside * _TRACE)",
        "(inside - law).abs()",
    ),
    Mutation(
        "torch forgets that the anchors come first in RRSw",
        "rheo/rules/rrsw.py",
        "beside = p.scatter_add(-1, anchors, -on_anchors)",
        "beside = p.clone()",
    ),
    Mutation(
        "torch orders the frontier's children by score, not by slot path",
        "rheo/growth.py",
        "ranks = ranks_of(behind.gather(1, chosen))",
        "ranks = counting(chosen.shape[1], device).expand_as(chosen)",
    ),
    Mutation(
        "torch chooses the beam by whatever order",
        "rheo/growth.py",
        "keys.topk(min(config.beam, keys.shape[1]))",
        "child_scores.topk(min(config.beam, keys.shape[1]))",
    ),
    Mutation(
        "torch reads the draw of another depth",
        "rheo/verification.py",
        "uniforms.draw[:, depth])",
        "uniforms.draw[:, 0])",
    ),
    Mutation(
        "torch reads the coin as the draw",
        "rheo/verification.py",
        "uniforms.coin[:, depth])",
        "uniforms.draw[:, depth])",
    ),
]


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment(folder))


def environment(folder: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.fault)
def test_a_broken_line_makes_a_test_fail(mutation: Mutation, copy: Path) -> None:
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutation.right) == 1, "the line to break has changed"
    path.write_text(text.replace(mutation.right, mutation.wrong), encoding="utf-8")
    done = run_tests(copy)
    assert done.returncode == 1, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert "FAILED" in done.stdout


def test_the_copy_itself_passes(copy: Path) -> None:
    done = run_tests(copy)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
