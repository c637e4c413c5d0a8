"""The torch sampler refuses inputs that it cannot use, naming them, and does not read those that are padding."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from reference.methods import SLOTTED
from rheo.config import Config
from rheo.decoding import Sampler, play_round
from rheo.growth import grow
from rheo.methods import METHODS
from rheo.processors import temperature
from rheo.tree import Frontier
from rheo.uniforms import draw_uniforms
from rheo.verification import check_drafts, verify
from tests.fixed_logits import CONFIG, VOCAB, FixedLogits, logits_for, sampler


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "all -inf"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("vocab", [50, 5_000])
def test_unusable_target_logits_raise_and_name_the_row(bad: float | str, dtype: torch.dtype, vocab: int) -> None:
    """Any row of the tree, also one the path does not reach: an error must not depend on the draw."""
    for row in (0, 4, CONFIG.budget):
        pair = logits_for([1, 2, 3], dtype=dtype, vocab=vocab)
        if isinstance(bad, str):
            pair.all[2, row] = -torch.inf
        else:
            pair.all[2, row, 7] = bad
        with pytest.raises(ValueError, match=f"target logits of request 2, row {row}"):
            play_round(sampler(), pair, draw_uniforms(CONFIG, [1, 2, 3]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "all -inf"])
@pytest.mark.parametrize("vocab", [VOCAB, 5_000])
def test_unusable_draft_logits_raise_and_name_the_row(bad: float | str, vocab: int) -> None:
    logits = torch.randn(2, CONFIG.depth, CONFIG.beam, vocab)
    if isinstance(bad, str):
        logits[1, 2, 1] = -torch.inf
    else:
        logits[1, 2, 1, 3] = bad
    pair = FixedLogits(logits, torch.randn(2, CONFIG.budget + 1, vocab))
    expansion = CONFIG.expansion(2, 1)
    for method in SLOTTED:
        with pytest.raises(ValueError, match=f"draft logits of request 1, expansion {expansion}"):
            play_round(sampler(method), pair, draw_uniforms(CONFIG, [1, 2]))


def test_padding_of_the_frontier_may_hold_anything() -> None:
    """A draft that knows two tokens fills fewer nodes than the beam; what the drafter says there is not read."""
    config = replace(CONFIG, beam=4)
    pair = logits_for([1], config)
    pair.rows[:] = -torch.inf
    pair.rows[..., 3], pair.rows[..., 9] = 1.0, 0.0

    class Padded(FixedLogits):
        def draft(self, frontier: Frontier) -> Tensor:
            logits = super().draft(frontier).clone()
            logits[~frontier.occupied] = torch.nan
            return logits

    tree, path = play_round(sampler(config=config), Padded(pair.rows, pair.all), draw_uniforms(config, [1]))
    assert set(tree.tokens[tree.occupied].tolist()) <= {3, 9}
    assert path.lengths[0] >= 1


def test_drafts_and_uniforms_of_another_shape_are_refused() -> None:
    pair, uniforms = logits_for([1]), draw_uniforms(CONFIG, [1])
    for wrong in (pair.rows[:, 0], pair.rows[0, :, :1], pair.rows):
        with pytest.raises(ValueError, match="draft logits must be"):
            grow(lambda _, wrong=wrong: wrong, uniforms.probe, CONFIG, METHODS["rheo"].growth)  # type: ignore[misc]
    with pytest.raises(ValueError, match="probe uniforms must be"):
        grow(pair.draft, uniforms.probe[:, 1:], CONFIG, METHODS["rheo"].growth)


def test_targets_of_another_shape_are_refused() -> None:
    pair = logits_for([1])
    tree = grow(pair.draft, draw_uniforms(CONFIG, [1]).probe, CONFIG, METHODS["rheo"].growth)
    for wrong in (pair.all[:, 1:], pair.all[0], pair.all[:, : tree.tokens.shape[1]]):
        with pytest.raises(ValueError, match="target logits must be"):
            verify(tree, wrong, draw_uniforms(CONFIG, [1]), temperature(1), METHODS["rheo"].rule)


def test_check_drafts_says_nothing_about_a_good_tree() -> None:
    pair = logits_for([1])
    check_drafts(grow(pair.draft, draw_uniforms(CONFIG, [1]).probe, CONFIG, METHODS["rheo"].growth))


def test_settings_outside_their_domain_are_refused() -> None:
    for wrong in (
        {"anchors": 10},
        {"slots": 0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"beam": True},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Config(**wrong)
    assert Config(temperature=Fraction(1, 3)).expansions == 71


@pytest.mark.parametrize("vocab", [50, 5_000])
def test_a_processor_that_leaves_no_token_raises_and_names_the_row(vocab: int) -> None:
    """A grammar's mask, say: the raw logits are fine, and still nothing may be emitted."""

    def nothing(logits: Tensor) -> Tensor:
        return torch.full_like(logits, -torch.inf)

    with pytest.raises(ValueError, match="target logits of request 0, row 0: no token is left"):
        play_round(Sampler(CONFIG, METHODS["rheo"], nothing), logits_for([1], vocab=vocab), draw_uniforms(CONFIG, [1]))


def test_padded_target_rows_may_hold_anything() -> None:
    """Trees of a batch differ in size; only a short one has padding."""
    pair = logits_for([1, 2])
    pair.rows[0] = -torch.inf
    pair.rows[0, ..., 3] = 0.0
    uniforms = draw_uniforms(CONFIG, [1, 2])
    tree = grow(pair.draft, uniforms.probe, CONFIG, METHODS["rheo"].growth)
    assert not tree.occupied[0].all()
    pair.all[0, 1:][~tree.occupied[0]] = torch.nan
    assert (play_round(sampler(), pair, uniforms)[1].lengths >= 1).all()


def test_uniforms_of_another_configuration_are_refused() -> None:
    pair = logits_for([1])
    for other in (replace(CONFIG, beam=2), replace(CONFIG, depth=2), replace(CONFIG, depth=4)):
        with pytest.raises(ValueError, match="uniforms"):
            play_round(sampler(), pair, draw_uniforms(other, [1]))
