"""What any sampler must do, seen from outside through `sample(toy, length, count, seed)`.

Only what holds surely is asserted here, so that it may stand under `@given`. Whether the law is right is a question
for statistics with a number of samples and error rates of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from verify.cases import Case, document
from verify.joint import Toy
from verify.subjects import Factory, Samples, Subject


def settings_of(case: Case) -> dict[str, Any]:
    """The configuration as a factory is given it: as in a case file, where a temperature may be a string like "1/2"."""
    config: dict[str, Any] = document(case)["config"]
    return config


def behaves(factory: Factory, case: Case, length: int, count: int, seed: int) -> None:
    """All of the below, for a sampler with the case's settings on the case's toy."""
    settings = settings_of(case)
    subject = factory(settings)
    repeats_itself(subject, factory(settings), case.toy, length, count, seed)
    samples = subject.sample(case.toy, length, count, seed)
    is_well_formed(samples, case.toy.vocab, length, count)
    emits_only_possible_tokens(samples, case.toy)
    if case.config.temperature == 0:
        emits_only_the_likeliest(samples, case.toy)


def repeats_itself(subject: Subject, fresh: Subject, toy: Toy, length: int, count: int, seed: int) -> None:
    """The same seed gives the same samples, a second time and from a fresh sampler: nothing is kept between calls."""
    first = subject.sample(toy, length, count, seed)
    assert np.array_equal(first, subject.sample(toy, length, count, seed))
    assert np.array_equal(first, fresh.sample(toy, length, count, seed))


def is_well_formed(samples: object, vocab: int, length: int, count: int) -> None:
    """Integers [count, length], each a token id."""
    assert isinstance(samples, np.ndarray)
    assert np.issubdtype(samples.dtype, np.integer)
    assert samples.shape == (count, length)
    assert ((samples >= 0) & (samples < vocab)).all()


def emits_only_possible_tokens(samples: Samples, toy: Toy) -> None:
    """No token that p rules out after the tokens before it."""
    for step in range(samples.shape[1]):
        p = toy.p(samples[:, :step])
        assert (np.take_along_axis(p, samples[:, step, None], 1) > 0).all(), f"step {step}"


def emits_only_the_likeliest(samples: Samples, toy: Toy) -> None:
    """At temperature 0: a likeliest token of p after the tokens before it; whichever, where several are."""
    for step in range(samples.shape[1]):
        p = toy.p(samples[:, :step])
        assert (np.take_along_axis(p, samples[:, step, None], 1)[:, 0] == p.max(1)).all(), f"step {step}"
