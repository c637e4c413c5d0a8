"""How long Hypothesis searches: the same examples every time in CI, other and many more at night."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# What Hypothesis sets by itself where it finds itself in CI is set here for every place; a slow machine is no finding.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
PROFILES = {
    "ci": settings(_COMMON, derandomize=True, database=None, max_examples=80),
    "nightly": settings(_COMMON, derandomize=False, max_examples=2_000),
}


def load(name: str | None = None) -> None:
    """Make a profile the default of all tests that follow: `name`, or what HYPOTHESIS_PROFILE says, or "ci".

    Call it in a conftest.py. hypothesis.errors.InvalidArgument for a name that is not known.
    """
    for known, profile in PROFILES.items():
        settings.register_profile(known, profile)
    settings.load_profile(name or os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def scaled(factor: float) -> settings:
    """The loaded profile with `factor` times its examples, for properties that are cheap or dear; a decorator."""
    return settings(max_examples=max(1, round(settings().max_examples * factor)))
