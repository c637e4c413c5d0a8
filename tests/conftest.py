"""Shared settings: one thread a process (the toys are small), and a count of the exact laws that were computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from properties import profiles

torch.set_num_threads(1)

profiles.load()

# Cases with expectations computed elsewhere, where a checkout has them beside it.
SHARED_CASES = sorted((Path(__file__).parents[2] / "shared" / "cases").glob("*.json"))


@pytest.fixture
def count_laws(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Report how many exact laws a test has checked; the sum is printed at the end of the run."""
    return lambda count: record_property("exact_laws", count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed")
    counts = [value for report in reports for key, value in report.user_properties if key == "exact_laws"]
    if counts:
        terminalreporter.write_line(f"exact laws checked in Fractions: {sum(counts)}")
