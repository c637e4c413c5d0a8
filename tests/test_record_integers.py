"""Recorded integers are the models' probabilities rounded, and the packaged cases are such recordings."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rheo.models.layer_skip import skip_last_layers
from tests.recordings import CONFIG, PROMPT, WORDS, probabilities, tiny_llama
from verify import cases
from verify.record import context_count, overlap, record

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_llama()


@pytest.fixture(scope="module")
def draft(target: Any) -> Any:
    return skip_last_layers(target, 2)


def rescaled(p: NDArray[np.float64], chosen: list[int], scale: int) -> list[int]:
    return [int(np.rint(scale * p[token] / p[chosen].sum())) for token in chosen]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_recorded_integers_equal_an_independent_computation(target: Any, draft: Any, batch_size: int) -> None:
    vocab, scale = 3, 1000
    document = record(target, draft, PROMPT, vocab, CONFIG, scale=scale, batch_size=batch_size)
    true_ids: dict[tuple[int, ...], list[int]] = {}
    for length in range(3):
        for local in itertools.product(range(vocab), repeat=length):
            context = PROMPT + [true_ids[local[:i]][local[i]] for i in range(length)]
            p, q = probabilities(target, context), probabilities(draft, context)
            chosen = sorted(sorted(range(len(WORDS)), key=lambda t: (-(p[t] + q[t]), t))[:vocab])
            true_ids[local] = chosen
            key = ",".join(map(str, local))
            assert document["p"][key] == rescaled(p, chosen, scale)
            assert document["q"][key] == rescaled(q, chosen, scale)
    assert len(document["p"]) == len(document["q"]) == len(true_ids) == context_count(vocab, 2) == 13


def test_document_is_exactly_a_case_file(target: Any, draft: Any) -> None:
    document = record(target, draft, PROMPT, 4, CONFIG)
    assert list(document) == ["vocab", "config", "default", "p", "q"]
    assert document["vocab"] == 4
    assert document["config"] == CONFIG
    assert document["default"] == {"p": [1] * 4, "q": [1] * 4}
    case = cases.parse(cases.dumps(document), "recorded")
    assert cases.document(case) == document


def test_contexts_are_reported_in_order_with_ascending_true_ids(target: Any, draft: Any) -> None:
    seen: list[tuple[str, list[int]]] = []
    document = record(target, draft, PROMPT, 2, CONFIG, on_context=lambda key, ids: seen.append((key, ids)))
    assert [key for key, _ in seen] == ["", "0", "1", "0,0", "0,1", "1,0", "1,1"] == list(document["p"])
    assert all(ids == sorted(set(ids)) for _, ids in seen)


class Fixed(torch.nn.Module):
    """A model whose logits are the same after every context."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, input_ids: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.logits.expand(len(input_ids), 1, -1))


def test_equal_tokens_keep_the_lower_ids_and_rounding_may_reach_zero() -> None:
    tied = Fixed([0.0] * 5000)
    seen: list[list[int]] = []
    document = record(tied, tied, [0], 2, {"depth": 0}, on_context=lambda _, ids: seen.append(ids))
    assert document["p"] == {"": [500, 500]}
    assert seen == [[0, 1]]
    sharp, flat = Fixed([0.0, -30.0, -30.0, -40.0]), Fixed([-900.0, 0.0, 0.0, -40.0])
    document = record(sharp, flat, [0], 3, {"depth": 0}, scale=100)
    assert document["p"] == {"": [100, 0, 0]}
    assert document["q"] == {"": [0, 50, 50]}
    assert overlap(document) == 0


@pytest.mark.parametrize(
    ("logits", "options", "complaint"),
    [
        ([0.0, float("nan"), 0.0], {}, r"context \[\]: a model returned NaN"),
        ([0.0, float("inf"), 0.0], {}, r"context \[\]: a model returned NaN"),
        ([float("-inf")] * 3, {}, r"context \[\]: a model returned NaN"),
        ([0.0, 0.0, float("-inf")], {"vocab": 1}, "probability 0 to every token kept"),
        ([0.0] * 3, {"vocab": 4}, "cannot keep 4 of 3 tokens"),
        ([0.0] * 4, {}, "differ in vocabulary: 3 and 4"),
        ([0.0] * 3, {"scale": 1}, "scale must be at least"),
        ([0.0] * 3, {"prefix_ids": []}, "at least one prompt token"),
        ([0.0] * 3, {"vocab": 0}, "at least one token kept"),
    ],
)
def test_what_cannot_be_recorded_is_refused(logits: list[float], options: dict[str, Any], complaint: str) -> None:
    arguments: dict[str, Any] = {"prefix_ids": [0], "vocab": 2, "config": {"depth": 1}} | options
    with pytest.raises(ValueError, match=complaint) as caught:
        record(Fixed([0.0, 0.0, 9.0]), Fixed(logits), **arguments)
    assert "\n" not in str(caught.value)


RECORDED = sorted((Path(cases.__file__).parent / "data" / "recorded").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_case_is_documented_and_small(path: Path) -> None:
    case = cases.load(path)
    document = json.loads(path.read_text())
    assert set(document) == {"vocab", "config", "default", "p", "q"}
    assert len(document["p"]) == len(document["q"]) == context_count(case.toy.vocab, case.config.depth)
    assert path.stat().st_size < 30_000
    assert path.name in (path.parent / "README.md").read_text()


def test_recorded_cases_cover_both_suites_and_a_temperature_other_than_one() -> None:
    loaded = [cases.load(path) for path in RECORDED]
    for suite in ("humaneval", "mt-bench"):
        assert sum(path.stem.startswith(suite) for path in RECORDED) >= 4
    assert {case.config.temperature for case in loaded} > {1}
    assert {case.config.anchors for case in loaded} == {0, 1, 2}
