"""The methods of the papers that the family holds, and those of them whose trees have a fixed shape."""

from __future__ import annotations

BASELINES = ("chain", "block", "specinfer", "spectr", "sequoia")
FIXED = ("specinfer", "spectr", "sequoia")
