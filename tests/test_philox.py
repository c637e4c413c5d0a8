"""Uniforms for many keys at once are those of NumPy's generator for each."""

from __future__ import annotations

import numpy as np
import pytest

from rheo import philox, uniforms
from rheo.config import Config
from rheo.uniforms import draw_uniforms


@pytest.mark.parametrize("count", [1, 4, 7, 13])
def test_philox_of_many_keys_is_numpys_of_each(count: int) -> None:
    keys = np.random.default_rng(count).integers(0, 1 << 64, (40, 2), dtype=np.uint64)
    keys[:3] = [[0, 0], [2**64 - 1, 2**64 - 1], [2**64 - 1, 0]]
    alone = [np.random.Generator(np.random.Philox(key=key)).random(count) for key in keys]
    assert np.array_equal(philox.uniforms(keys[:, 0], keys[:, 1], count), alone)


def test_a_request_draws_the_same_numbers_in_a_small_batch_and_in_a_large_one() -> None:
    config = Config(slots=3, depth=2, beam=2, budget=4)
    seeds = [(1 << 63) + 3 * i for i in range(2 * uniforms._MANY)]
    many, few = draw_uniforms(config, seeds, index=5), draw_uniforms(config, seeds[:3], index=5)
    assert all(np.array_equal(getattr(many, kind)[:3], getattr(few, kind)) for kind in ("probe", "coin", "draw"))
