"""Types of options that several commands share."""

from __future__ import annotations

import math
from typing import Any

import click


class Within(click.FloatRange):
    """A range that a NaN is outside of: click compares, and a NaN is in no relation."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; click's BadParameter for anything else."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


SHARE = Within(0, 1, min_open=True, max_open=True)
SECONDS = Within(0, min_open=True)
