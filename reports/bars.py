"""Progress of long work: bars on standard error, which are silent where that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def bars(*columns: ProgressColumn, keep: bool = False) -> Progress:
    """Any number of bars with these columns, what is being done behind them. keep: whether they stay at the end."""
    console = Console(stderr=True)
    text = TextColumn("{task.description}")
    return Progress(BarColumn(), *columns, text, console=console, transient=not keep, disable=not console.is_terminal)


@contextmanager
def count_bar(total: int) -> Iterator[Callable[[str], None]]:
    """Call the result with what is begun next."""
    with bars(MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=total, completed=-1)
        yield lambda text: bar.update(task, advance=1, description=escape(text))


@contextmanager
def work_bar(total: int, done: int = 0) -> Iterator[Callable[[int, str], None]]:
    """Call the result with all work done so far, in any unit, and what is being done."""
    with bars(TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("starting", total=total, completed=done)
        yield lambda now, text: bar.update(task, completed=now, description=escape(text))


@contextmanager
def seconds_bar(total: float) -> Iterator[Callable[[str], None]]:
    """A bar of time; call the result with what is being done."""
    began = monotonic()
    with bars(TimeElapsedColumn()) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text: bar.update(task, completed=monotonic() - began, description=escape(text))


@contextmanager
def bytes_bar(sizes: list[int]) -> Iterator[Callable[[int, float, str], None]]:
    """A bar over the bytes of files; call the result with the number of a file, how much of it was read, its name."""
    with bars(DownloadColumn(), TimeElapsedColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=sum(sizes))

        def advance(number: int, share: float, name: str) -> None:
            read = sum(sizes[:number]) + share * sizes[number]
            bar.update(task, completed=read, description=escape(name))

        yield advance
