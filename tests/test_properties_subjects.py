"""What any sampler must do from outside: ours do, and broken ones are found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import subjects
from properties.strategies import cases
from rheo.config import Config
from rheo.methods import METHODS
from verify.cases import Case
from verify.joint import Toy
from verify.random_toys import random_toy
from verify.subjects import Samples, reference, torch_sampler

pytestmark = pytest.mark.exact

FACTORIES = {"reference": reference, "torch": torch_sampler}
CASE = Case("zeros", random_toy(1, 4, 3, "zeros"), Config(1, 3, 2, 2, 5, None, Fraction(1, 2)))


@pytest.mark.parametrize("name", FACTORIES)
@given(
    case=cases(),
    method=st.sampled_from(sorted(METHODS)),
    length=st.integers(1, 5),
    count=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_our_samplers_behave_on_any_toy(name: str, case: Case, method: str, length: int, count: int, seed: int) -> None:
    def factory(settings: dict[str, Any]) -> Any:
        return FACTORIES[name]({**settings, "method": method})

    subjects.behaves(factory, case, length, count, seed)


@dataclass
class Changed:
    """The reference, with its samples changed before anybody sees them."""

    settings: dict[str, Any]
    change: Callable[[Samples, Toy, int], Any]
    calls: int = 0

    def sample(self, toy: Toy, length: int, count: int, seed: int) -> Any:
        self.calls += 1
        return self.change(reference(self.settings).sample(toy, length, count, seed), toy, self.calls)


def unlikely(samples: Samples, toy: Toy, calls: int) -> Samples:
    """Row 0 begins with the least likely token of all."""
    samples[0, 0] = toy.p(np.zeros((1, 0), dtype=np.int64))[0].argmin()
    return samples


# What is wrong, how it comes about, and which property must see it.
BROKEN: dict[str, tuple[Callable[[Samples, Toy, int], Any], str]] = {
    "another sample at every call": (lambda samples, toy, calls: np.roll(samples, calls), "repeats_itself"),
    "a row too few": (lambda samples, toy, calls: samples[1:], "is_well_formed"),
    "a token too many": (lambda samples, toy, calls: np.hstack([samples, samples[:, :1]]), "is_well_formed"),
    "floats": (lambda samples, toy, calls: samples.astype(float), "is_well_formed"),
    "a list": (lambda samples, toy, calls: samples.tolist(), "is_well_formed"),
    "padding": (lambda samples, toy, calls: np.where(samples == 1, -1, samples), "is_well_formed"),
    "an id too large": (lambda samples, toy, calls: np.where(samples == 1, toy.vocab, samples), "is_well_formed"),
    "an impossible token": (unlikely, "emits_only_possible_tokens"),
}


def test_the_unbroken_reference_passes_where_the_broken_fail() -> None:
    assert 0 in CASE.toy.target.weights(())
    subjects.behaves(lambda settings: Changed(settings, lambda samples, toy, calls: samples), CASE, 4, 30, 1)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_sampler_is_found(fault: str) -> None:
    change, seen_by = BROKEN[fault]
    with pytest.raises(AssertionError) as found:
        subjects.behaves(lambda settings: Changed(settings, change), CASE, length=4, count=30, seed=1)
    assert found.traceback[-1].name == seen_by


def test_state_kept_from_one_sampler_to_the_next_is_found() -> None:
    rng = np.random.default_rng(1)

    def factory(settings: dict[str, Any]) -> Changed:
        shift = int(rng.integers(1, 100))
        return Changed(settings, lambda samples, toy, calls: np.roll(samples, shift))

    with pytest.raises(AssertionError):
        subjects.repeats_itself(factory({}), factory({}), CASE.toy, 3, 40, 1)


def test_a_sampler_that_stays_warm_at_temperature_zero_is_found() -> None:
    cold = replace(CASE, config=replace(CASE.config, temperature=Fraction(0)))
    subjects.behaves(torch_sampler, cold, length=4, count=30, seed=1)
    with pytest.raises(AssertionError):
        subjects.behaves(lambda settings: torch_sampler({**settings, "temperature": 1}), cold, 4, 30, 1)


def test_the_example_in_the_documentation_runs() -> None:
    text = (Path(__file__).parents[1] / "docs" / "properties.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    settings(max_examples=10)(names["test_my_sampler_behaves"])()
