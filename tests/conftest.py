"""Shared settings: one thread a process (the toys are small), and a count of the exact laws that were computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from properties import profiles
from rheo.cli import main as cli
from rheo.cli import sampler as sampler_command
from verify.executors import Here

torch.set_num_threads(1)

profiles.load()

# Cases with expectations computed elsewhere, where a checkout has them beside it.
SHARED_CASES = sorted((Path(__file__).parents[2] / "shared" / "cases").glob("*.json"))


Rheo = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rheo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rheo:
    """`rheo` with arguments, in this process: its exit status, and what it wrote to standard output and error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rheo", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other processes: what a sampler does wrong it does in this one."""

    @contextmanager
    def executor(request: object) -> Iterator[tuple[Executor, int]]:
        yield Here(), 1

    monkeypatch.setattr(sampler_command, "_executor", executor)


@pytest.fixture
def count_laws(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Report how many exact laws a test has checked; the sum is printed at the end of the run."""
    return lambda count: record_property("exact_laws", count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed")
    counts = [value for report in reports for key, value in report.user_properties if key == "exact_laws"]
    if counts:
        terminalreporter.write_line(f"exact laws checked in Fractions: {sum(counts)}")
