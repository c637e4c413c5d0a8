"""What is asked of the torch sampler in each dtype."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """What is asked of a dtype: how far inside a cell's ends it is tried, what its rounding may move a boundary by
    (`slack`: over a vocabulary), and the total variation up to which it counts as lossless."""

    dtype: torch.dtype
    inside: float
    noise: float
    slack: float
    lossless: float


PRECISIONS = {
    "float64": Precision(torch.float64, 1e-13, 1e-14, 1e-12, 1e-12),
    "float32": Precision(torch.float32, 1e-5, 2e-7, 1e-5, 1e-6),
}
