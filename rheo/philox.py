"""Philox 4x64 with ten rounds for many keys at once: the numbers that NumPy's bit generator gives one key at a time.

Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_AT_ONCE = 8_192  # keys whose words stay in the cache


def uniforms(first: Words, second: Words, count: int) -> NDArray[np.float64]:
    """float64 [n, count] in [0, 1): row i is what np.random.Generator(Philox(key=[first[i], second[i]])) draws.

    first, second: uint64 [n].
    """
    words = np.empty((len(first), -(-count // 4) * 4), dtype=np.uint64)
    for i in range(0, len(first), _AT_ONCE):
        part = slice(i, i + _AT_ONCE)
        for block in range(words.shape[1] // 4):
            words[part, 4 * block : 4 * block + 4] = _block(first[part], second[part], block).T
    return np.asarray((words[:, :count] >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def _block(first: Words, second: Words, block: int) -> Words:
    """The four words [4, n] of one counter; NumPy counts from 1."""
    a, b, c, d = (np.full(len(first), x, dtype=np.uint64) for x in (block + 1, 0, 0, 0))
    for turn in range(_ROUNDS):
        # The key moves on by a constant each round, modulo 2^64.
        x, y = first + np.uint64(turn * _WEYL[0] % 2**64), second + np.uint64(turn * _WEYL[1] % 2**64)
        high_a, high_c = _high(_MULTIPLIERS[0], a), _high(_MULTIPLIERS[1], c)
        a, b, c, d = high_c ^ b ^ x, c * _MULTIPLIERS[1], high_a ^ d ^ y, a * _MULTIPLIERS[0]
    return np.stack([a, b, c, d])


def _high(x: np.uint64, y: Words) -> Words:
    """The upper 64 bits of the products x y [n], by halves."""
    x_high, x_low, y_high, y_low = x >> _HALF, x & _LOW, y >> _HALF, y & _LOW
    middle = x_high * y_low + (x_low * y_low >> _HALF)
    carry = x_low * y_high + (middle & _LOW)
    high: Words = x_high * y_high + (middle >> _HALF) + (carry >> _HALF)
    return high
