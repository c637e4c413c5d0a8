"""transformers' sampling, run as shipped, keeps its target; the same, broken on purpose, does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.cache_utils import DynamicLayer
from transformers.generation import utils as generation
from transformers.generation.candidate_generator import AssistedCandidateGenerator

from verify import goodness, power
from verify.engines.toy_models import LookupModel
from verify.engines.transformers_assisted import Generation, assisted_generation, prompt_lookup, sampling
from verify.engines.transformers_speculative import speculative_sampling
from verify.goodness import Evidence
from verify.joint import cell_of, count_cells, joint_law
from verify.random_toys import random_toy
from verify.subjects import Factory, Samples
from verify.toys import Table, Toy

pytestmark = pytest.mark.model
as_found = pytest.mark.skipif(
    not transformers.__version__.startswith("5.24."), reason="a fault of transformers 5.24: look again in this version"
)

TOY = random_toy(3, 2, 5, "any")
ALPHA, BETA = 1e-9, 1e-6
TEMPERATURES = {"1": 1.0, "1/2": 0.5}
EAGER = {"assistant_confidence_threshold": 0.0}  # never cuts a draft short


def pair(p: tuple[int, ...], q: tuple[int, ...]) -> Toy:
    """The same p and q after every prefix."""
    return Toy(len(p), Table(p, {}), Table(q, {}))


def judge(samples: Samples, toy: Any, temperature: float = 1.0) -> Evidence:
    return goodness.tv_gate(count_cells(samples, toy.vocab), joint_law(toy, temperature, samples.shape[1]))


def misdeclared(logits: torch.Tensor) -> torch.Tensor:
    """The logits of another temperature than was drawn at."""
    return logits * 0.25


@pytest.mark.parametrize("temperature", ["1", "1/2"])
def test_ordinary_sampling_is_the_target_by_every_test(temperature: str) -> None:
    samples = sampling({"temperature": temperature}).sample(TOY, 5, 200_000, seed=1)
    value = TEMPERATURES[temperature]
    assert judge(samples, TOY, value).p_value > ALPHA
    counts = count_cells(samples[:, :2], 2)
    assert goodness.chi_square(counts, joint_law(TOY, value, 2)).p_value > ALPHA
    assert goodness.independent_rows(cell_of(samples[:, :2], 2), joint_law(TOY, value, 2)).p_value > ALPHA


@pytest.mark.parametrize("temperature", ["1", "1/2"])
@pytest.mark.parametrize("kind", ["any", "zeros"])
def test_the_acceptance_step_keeps_the_target_over_several_rounds(kind: str, temperature: str) -> None:
    toy = random_toy(7, 2, 7, kind)
    samples = speculative_sampling({"depth": 2, "temperature": temperature}).sample(toy, 5, 8_000, seed=2)
    assert judge(samples, toy, TEMPERATURES[temperature]).p_value > ALPHA


ASSISTED: dict[str, dict[str, Any]] = {
    "as it comes": {"depth": 2},
    "drafts never cut short": {"depth": 2, "assistant": EAGER},
    "at temperature 1/2": {"depth": 2, "assistant": EAGER, "temperature": "1/2"},
    "drafts that grow and shrink": {"assistant": {**EAGER, "num_assistant_tokens_schedule": "heuristic"}},
}


@pytest.mark.parametrize("settings", ASSISTED.values(), ids=ASSISTED)
def test_assisted_generation_keeps_the_target(settings: dict[str, Any]) -> None:
    samples = assisted_generation(settings).sample(TOY, 4, 1_000, seed=3)
    assert judge(samples, TOY, 0.5 if "temperature" in settings else 1.0).p_value > ALPHA


def test_prompt_lookup_keeps_the_target_and_does_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    forwards = counted(monkeypatch, LookupModel, "forward")
    samples = prompt_lookup({"depth": 2}).sample(TOY, 5, 1_000, seed=4)
    assert judge(samples, TOY).p_value > ALPHA
    assert len(forwards) < 0.9 * samples.size


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Grows by one at each call of a function from now on."""
    calls: list[str] = []
    inner = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return inner(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_draft_declared_at_another_temperature_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step, get = generation._speculative_sampling, AssistedCandidateGenerator.get_candidates

    def wrong_step(ids: Any, logits: Any, *rest: Any, **kw: Any) -> Any:
        return step(ids, misdeclared(logits), *rest, **kw)

    def wrong_candidates(self: Any, ids: Any, **kw: Any) -> Any:
        candidates, logits = get(self, ids, **kw)
        return candidates, None if candidates.shape == ids.shape else misdeclared(logits)

    toy = pair((1, 1), (9, 1))
    with monkeypatch.context() as patch:
        patch.setattr(generation, "_speculative_sampling", wrong_step)
        found = judge(speculative_sampling({"depth": 2}).sample(toy, 4, 1_000, seed=5), toy)
        assert found.p_value < ALPHA
    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", wrong_candidates)
    found = judge(assisted_generation({"depth": 2, "assistant": EAGER}).sample(toy, 4, 500, seed=5), toy)
    assert found.p_value < ALPHA


def test_a_cache_that_keeps_refused_drafts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DynamicLayer, "crop", lambda self, tokens_to_remove: None)
    toy = random_toy(3, 2, 5, "peaked")
    samples = assisted_generation({"depth": 2, "assistant": EAGER}).sample(toy, 5, 500, seed=10)
    assert judge(samples, toy).p_value < ALPHA


def test_the_ensemble_weight_loses_exactly_what_it_says() -> None:
    toy, weight = pair((6, 3, 1), (1, 3, 6)), 0.5
    settings = {"assistant": EAGER, "generate": {"assistant_ensemble_weight": weight}}
    first = assisted_generation(settings).sample(toy, 2, 800, seed=6)[:, :1]
    assert judge(first, toy).p_value < ALPHA
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
    law = weight * p + (1 - weight) * q
    counts = count_cells(first, 3)
    assert goodness.tv_gate(counts, law).p_value > ALPHA
    tv = (1 - weight) * np.abs(p - q).sum() / 2
    assert abs(judge(first, toy).statistic - tv) < power.tv_gate_detectable(len(first), ALPHA, BETA, 3)


@pytest.mark.parametrize("factory", [sampling, speculative_sampling, assisted_generation, prompt_lookup])
def test_a_seed_gives_its_samples_and_leaves_torchs_generator_alone(factory: Factory) -> None:
    subject = factory({"depth": 2})
    state = torch.get_rng_state()
    first = subject.sample(TOY, 4, 20, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert first.shape == (20, 4)
    assert first.dtype == np.int64
    assert np.array_equal(first, subject.sample(TOY, 4, 20, seed=1))
    assert not np.array_equal(first, subject.sample(TOY, 4, 20, seed=2))
    assert subject.sample(TOY, 4, 0, seed=1).shape == (0, 4)


@pytest.mark.parametrize("factory", [speculative_sampling, assisted_generation])
@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"depth": 0}])
def test_settings_that_transformers_cannot_sample_with_are_refused(
    factory: Callable[..., object], wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        factory(wrong)


@pytest.mark.parametrize(
    ("module", "before", "end"),
    [
        ("transformers_assisted", "import sys; sys.modules['transformers'] = None", "'rheosampling[models]'"),
        ("transformers_speculative", "import sys; sys.modules['transformers'] = None", "'rheosampling[models]'"),
        ("toy_models", "import transformers; transformers.__version__ = '5.9.1'", "; found 5.9.1"),
    ],
)
def test_without_the_right_transformers_one_line_says_what_to_install(module: str, before: str, end: str) -> None:
    code = f"{before}; import verify.engines.{module}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert last.startswith("ImportError: verify.engines needs transformers 5.24 or later: pip install")
    assert last.endswith(end)


def test_beyond_fifty_tokens_generate_samples_another_target_unless_told_not_to() -> None:
    toy = pair(tuple(range(30, 94)), (1,) * 64)
    seen = sampling({}).sample(toy, 1, 8_000, seed=9)
    assert np.array_equal(np.unique(seen), np.arange(64))
    seen = Generation({}, batch=8_000).sample(toy, 1, 8_000, seed=9)
    assert np.array_equal(np.unique(seen), np.arange(14, 64))


def accepted(drafts: Any, q: Any, p: Any, keep: Callable[[float], float]) -> list[list[int]]:
    """Verification as in the books; keep(p / q) is the probability of acceptance."""
    rows = []
    for row, own_q, own_p in zip(drafts.tolist(), q, p, strict=True):
        kept: list[int] = []
        for i, token in enumerate(row):
            if torch.rand(()).item() >= keep(float(own_p[i, token] / own_q[i, token])):
                rest = (own_p[i] - own_q[i]).clamp(min=0)
                break
            kept.append(token)
        else:
            rest = own_p[-1]
        rows.append([*kept, int(torch.multinomial(rest, 1))])
    return rows


@pytest.mark.parametrize(("keep", "lossy"), [(lambda a: min(a, 1.0), False), (lambda a: min(2 * a, 1.0), True)])
def test_the_subject_printed_in_the_documentation_works(
    monkeypatch: pytest.MonkeyPatch, keep: Callable[[float], float], lossy: bool
) -> None:
    text = (Path(__file__).parents[1] / "docs" / "engines.md").read_text(encoding="utf-8")
    engine = ModuleType("my_engine")
    vars(engine)["verify_drafts"] = partial(accepted, keep=keep)
    monkeypatch.setitem(sys.modules, "my_engine", engine)
    scope: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]):
        exec(text.split("```python\n")[-1].split("```")[0], scope)
        samples = scope["Subject"]({"depth": 2, "temperature": 0.5}).sample(TOY, 4, 2_000, seed=11)
    assert (judge(samples, TOY, 0.5).p_value < ALPHA) == lossy
