"""An audit takes constant memory, and little more time than reading its trace."""

from __future__ import annotations

import gc
import json
import math
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.traces import ALPHA, rows, saved, whole
from verify.lifetime import Plan

pytestmark = pytest.mark.stat


@pytest.mark.parametrize(("suffix", "n"), [(".npz", 200_000), (".jsonl", 50_000)])
def test_memory_does_not_grow_with_the_trace(tmp_path: Path, suffix: str, n: int) -> None:
    peaks = []
    for size in (n, 4 * n):
        path = saved(tmp_path / f"{size}{suffix}", rows(size))
        tracemalloc.start()
        whole(path, Plan(ALPHA, 0, size))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def seconds(work: Callable[[], object]) -> float:
    """The least processor time that something took."""
    best = math.inf
    for _ in range(5):
        gc.collect()
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def test_an_npz_takes_a_few_times_what_reading_and_transforming_it_in_one_piece_takes(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", rows(500_000))

    def floor() -> None:
        with np.load(path) as columns:
            p_token, p_before = columns["p_token"], columns["p_before"]
        pit = p_before + np.random.default_rng(0).random(len(p_token)) * p_token
        np.bincount((pit * 256).astype(np.intp))

    assert seconds(lambda: whole(path, Plan(ALPHA, 0, None))) < 8 * seconds(floor)  # measured: 4.4


def test_jsonl_takes_less_than_parsing_it_line_by_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.jsonl", rows(50_000))
    lines = path.read_text().splitlines()
    floor = seconds(lambda: [json.loads(line) for line in lines])
    assert seconds(lambda: whole(path, Plan(ALPHA, 0, None))) < 0.85 * floor  # measured: 0.52
