"""The projection to other GPUs: its formula, and the table of it in the documentation."""

from __future__ import annotations

import re

import pytest

from tests.test_cli import ROOT
from verify.projection import PAPER_RATIO, project

READ = {"8B": 15.01e9, "13B": 25.70e9}  # bytes a token reads, as the page says


def test_a_tau_at_the_ratio_is_as_fast_as_no_draft() -> None:
    least, most = PAPER_RATIO
    assert project(2e9, 4e9, least).high == pytest.approx(2.0)
    assert project(2e9, 4e9, most).low == pytest.approx(2.0)
    assert project(2e9, 4e9, 3.0, (1.5, 2.0)) == project(1e9, 2e9, 3.0, (1.5, 2.0))
    assert project(2e9, 4e9, 3.0, (1.5, 2.0)).high == pytest.approx(4.0)


def test_the_documented_projection_is_what_the_formula_gives() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    table = text[text.index("| GPU | bandwidth |") :]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:] if line[:1] == "|"]
    assert len(rows) == 5
    for name, bandwidth, *cells in rows:
        for size, autoregressive, drafted in zip(READ, cells[::2], cells[1::2], strict=True):
            if size == "13B" and "24 GB" in name:
                assert (autoregressive, drafted) == ("does not fit", "does not fit")
                continue
            found = project(READ[size], float(bandwidth) * 1e9, tau=1.0)
            assert autoregressive == f"{found.autoregressive:.1f}", (name, size)
            assert drafted == f"{found.low:.1f} to {found.high:.1f}", (name, size)
    example = project(READ["8B"], 768e9, tau=3.0)
    assert f"{example.low:.0f} to {example.high:.0f} tokens a second" in text


def test_the_bytes_a_token_reads_are_those_of_the_models_shapes() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    for size, layers, d, kv, inner, vocab in (
        ("8B", 32, 4096, 1024, 14_336, 128_256),
        ("13B", 40, 5120, 5120, 13_824, 32_000),
    ):
        embedding = vocab * d
        read = 2 * (layers * (2 * d * d + 2 * d * kv + 3 * d * inner) + embedding)
        assert round(read / 1e9, 2) == READ[size] / 1e9
        assert f"{READ[size] / 1e9:.2f} GB of" in text
        assert re.search(rf"\| {(read + 2 * embedding) / 1e9:.1f} GB \|.*\| {4 * layers * kv / 1e6:.2f} MB \|", text)
