"""What a page is made of: sections of tables, figures and remarks. Text here is plain; the template escapes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from markupsafe import Markup

Tone = Literal["", "ok", "bad", "warn"]

_TONES: dict[str, Tone] = {"lossless": "ok", "lossy": "bad", "unexpected": "bad", "control_passed": "bad"}
_LONG = 28  # characters beyond which a cell's text may be broken into lines
_SIGNS = {"ok": "✓", "bad": "✗", "warn": "?", "": ""}


@dataclass(frozen=True)
class Cell:
    """One cell of a table. tone: how it is coloured; its sign says the same without colour."""

    text: str
    tone: Tone = ""
    number: bool = False
    strong: bool = False

    @property
    def sign(self) -> str:
        return _SIGNS[self.tone]

    @property
    def look(self) -> str:
        """Its classes in the style sheet."""
        flags = {"number": self.number, "strong": self.strong, "long": len(self.text) > _LONG, self.tone: True}
        return " ".join(name for name, is_set in flags.items() if is_set)


@dataclass(frozen=True)
class Table:
    """Rows of len(heads) cells, the first of which heads its row. folded: closed on the screen until it is opened."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return bool(self.rows) and self.rows[0][column].number


@dataclass(frozen=True)
class Figure:
    """A drawing: what it shows for whoever does not see it, how to read it, its <svg>.

    wide: scrolls instead of shrinking. legend: marks, each an <svg>, and what they stand for.
    """

    label: str
    caption: str
    svg: Markup
    wide: bool = False
    legend: Sequence[tuple[Markup, str]] = ()


@dataclass(frozen=True)
class Remark:
    """A line with a tone; code is shown as what one would type."""

    text: str
    tone: Tone = ""
    code: str = ""


@dataclass(frozen=True)
class Chips:
    """A labelled row of small boxes, such as emitted tokens: each its text and what it is."""

    label: str
    items: Sequence[tuple[str, str]]


Block = Table | Figure | Remark | Chips


@dataclass(frozen=True)
class Section:
    """A headed part of the page. badge: a verdict shown beside the title."""

    id: str
    title: str
    lead: str
    blocks: Sequence[Block]
    badge: Cell | None = None
    parts: Sequence[Section] = ()


def tone_of(status: str) -> Tone:
    """The tone of a status or verdict; whatever is neither right nor wrong asks for attention."""
    return _TONES.get(status, "warn")


def status_cell(status: str) -> Cell:
    """A status or verdict as a cell."""
    return Cell(status.replace("_", " "), tone_of(status))


def badge_of(statuses: Sequence[str]) -> Cell:
    """How many of several are lossless, in the tone of the worst."""
    tones = {tone_of(status) for status in statuses}
    tone: Tone = "bad" if "bad" in tones else "warn" if "warn" in tones else "ok"
    return Cell(f"{sum(status == 'lossless' for status in statuses)} of {len(statuses)} lossless", tone)


def number(value: float | None, digits: int = 3) -> Cell:
    """A number as a cell; a dash for None."""
    return Cell(plain(value, digits), number=True)


def plain(value: float | None, digits: int = 3) -> str:
    """A number as one writes it: 12 000 000 with narrow spaces, 0.005, 1e-9; a dash for None."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return tidy(f"{value:.{digits}g}")


def tidy(text: str) -> str:
    """1e-9 for 1e-09."""
    return re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", text)


def fixed(value: float | None, digits: int = 4) -> Cell:
    """A number with a fixed number of decimals, for columns that are compared."""
    return Cell("-" if value is None else f"{value:.{digits}f}", number=True)


def counted(count: int, noun: str) -> str:
    """1 case, 2 cases."""
    return f"{plain(count)} {noun}" if count == 1 else f"{plain(count)} {noun}s"


def stem(case: str) -> str:
    """The name of a case without its folder and suffix."""
    return PurePath(case).stem or case


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of first appearance."""
    return list(dict.fromkeys(values))
