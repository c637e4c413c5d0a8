"""The torch sampler as an engine uses it: errors, reproducibility, extremes of its inputs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from rheo import verification
from rheo.config import Config
from rheo.decoding import Sampler, decode, play_round
from rheo.distributions import inverse_cdf, softmax
from rheo.growth import grow
from rheo.growths import rheo
from rheo.methods import METHODS
from rheo.processors import chain, min_p, temperature, top_k, top_p
from rheo.tree import PROBE, Frontier, Tree
from rheo.truncation import top, truncate
from rheo.uniforms import Uniforms, draw_uniforms, split_uniforms
from rheo.verification import check_drafts, verify
from verify.random_toys import random_toy
from verify.torch_toys import ToyModels, automaton

CONFIG = Config(anchors=1, slots=4, beam=3, depth=3, budget=12, support=16)
VOCAB = 50


class FixedLogits:
    """The same logits at every node of a depth; row i of the batch is request i."""

    def __init__(self, draft: Tensor, target: Tensor) -> None:
        self.rows, self.all = draft, target

    def draft(self, frontier: Frontier) -> Tensor:
        return self.rows[:, frontier.depth, : frontier.tokens.shape[1]]

    def target(self, tree: Tree) -> Tensor:
        return self.all[:, : tree.tokens.shape[1] + 1]


def logits_for(
    seeds: list[int], config: Config = CONFIG, dtype: torch.dtype = torch.float32, vocab: int = VOCAB
) -> FixedLogits:
    drafts, targets = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        drafts.append(torch.randn(config.depth, config.beam, vocab, generator=generator) * 2)
        targets.append(torch.randn(config.budget + 1, vocab, generator=generator) * 2)
    return FixedLogits(torch.stack(drafts).to(dtype), torch.stack(targets).to(dtype))


def sampler(method: str = "rheo", config: Config = CONFIG) -> Sampler:
    return Sampler(config, METHODS[method])


@pytest.mark.parametrize("method", METHODS)
def test_a_request_gets_the_same_tokens_whatever_else_is_in_the_batch(method: str) -> None:
    seeds = [3, 11, 5, 8]
    together = play_round(sampler(method), logits_for(seeds), draw_uniforms(CONFIG, seeds))[1]
    for row, seed in enumerate(seeds):
        alone = play_round(sampler(method), logits_for([seed]), draw_uniforms(CONFIG, [seed]))[1]
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert torch.equal(alone.rows[0], together.rows[row])
    backwards = play_round(sampler(method), logits_for(seeds[::-1]), draw_uniforms(CONFIG, seeds[::-1]))[1]
    assert torch.equal(backwards.tokens.flip(0), together.tokens)


def test_uniforms_depend_on_the_seed_and_the_round_alone() -> None:
    first, again = draw_uniforms(CONFIG, [1, 2]), draw_uniforms(CONFIG, [2, 1])
    assert torch.equal(first.draw.flip(0), again.draw)
    assert not torch.equal(first.draw, draw_uniforms(CONFIG, [1, 2], index=1).draw)
    numbers = torch.cat([first.probe, first.coin, first.draw], -1)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert len(set(numbers.flatten().tolist())) == numbers.numel()
    high = draw_uniforms(CONFIG, [(1 << 63) + i for i in range(6)]).draw[:, 0]
    assert len(set(high.tolist())) == 6
    for wrong, complaint in (([-1], "seed -1"), ([1 << 64], "does not fit"), ([], "no seeds")):
        with pytest.raises(ValueError, match=complaint):
            draw_uniforms(CONFIG, wrong)
    with pytest.raises(ValueError, match="round -1"):
        draw_uniforms(CONFIG, [1], index=-1)


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
    for method in METHODS:
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


def test_a_probability_that_underflows_is_still_a_candidate() -> None:
    logits = torch.full((1, 1, 6), -torch.inf, dtype=torch.float64)
    logits[0, 0, 2], logits[0, 0, 4], logits[0, 0, 5] = 0.0, -2_000.0, -2_001.0
    draft = truncate(logits, None)
    assert draft.candidate.sum() == 3
    assert draft.q[0, 0, 1] == 0.0  # underflowed
    plan = rheo.plan(draft, Config(anchors=1, slots=3, support=None))
    assert plan.tail_law[0, 0, :2].tolist() == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))], rel=1e-12)
    config = Config(anchors=1, slots=3, beam=1, depth=1, budget=3, support=None)
    tree = grow(lambda _: logits, draw_uniforms(config, [0]).probe, config, METHODS["rheo"].growth)
    assert tree.occupied.all()
    assert (tree.kinds == PROBE).sum() == 1


@pytest.mark.parametrize("cold", [1e-3, 1e-30])
def test_a_cold_tail_does_not_underflow_beside_the_anchors(cold: float) -> None:
    draft = truncate(torch.tensor([[[5.0, 1.0, 0.99, -3.0]]]), None)
    law = rheo.plan(draft, Config(anchors=1, slots=3, temperature=cold)).tail_law[0, 0]
    assert torch.isfinite(law).all()
    assert law.sum() == pytest.approx(1)
    assert law.argmax() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("vocab", [7, 300, 5_000, 50_257])
def test_truncation_sorts_by_logit_then_by_token_id_with_any_ties(vocab: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(vocab)
    for step in (0.01, 1.0, 100.0):
        values = ((torch.randn(3, vocab, generator=generator) * 4) / step).round().to(dtype) * step
        values[1, ::2] = -torch.inf
        values[2] = -0.0
        values[2, ::3] = 0.0
        count = min(128, vocab)
        indices, largest = top(values, count)
        expected = np.argsort(-values.numpy(), axis=-1, kind="stable")[:, :count]
        np.testing.assert_array_equal(indices.numpy(), expected)
        assert torch.equal(largest, values.amax(-1))


def test_half_precision_logits_are_widened_before_anything_is_computed() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        half = logits_for([4, 6], dtype=dtype)
        wide = FixedLogits(half.rows.float(), half.all.float())
        uniforms = draw_uniforms(CONFIG, [4, 6])
        assert torch.equal(
            play_round(sampler(), half, uniforms)[1].tokens, play_round(sampler(), wide, uniforms)[1].tokens
        )


def shape_of(tree: Tree) -> list[object]:
    return [t.tolist() for t in (tree.tokens, tree.parents, tree.slots, tree.depths, tree.occupied)]


def test_without_anchors_the_cold_limit_is_the_top_k_tree() -> None:
    for seed in range(20):
        for cold in (0.0, 1e-6):
            config = replace(CONFIG, anchors=0, temperature=cold)
            pair = logits_for([seed], config)
            probe = draw_uniforms(config, [seed]).probe
            trees = [grow(pair.draft, probe, config, METHODS[m].growth) for m in ("rheo", "topk")]
            assert shape_of(trees[0]) == shape_of(trees[1])


def test_with_an_anchor_the_cold_limit_need_not_be_the_top_k_tree() -> None:
    config = replace(CONFIG, anchors=1, temperature=0.0)
    different = 0
    for seed in range(20):
        pair, probe = logits_for([seed], config), draw_uniforms(config, [seed]).probe
        trees = [grow(pair.draft, probe, config, METHODS[m].growth) for m in ("rheo", "topk")]
        different += shape_of(trees[0]) != shape_of(trees[1])
    assert different > 0


@pytest.mark.parametrize("method", METHODS)
def test_at_temperature_zero_the_output_is_the_targets_argmax(method: str) -> None:
    config = replace(CONFIG, temperature=0.0)
    toy = random_toy(2, 6, 3, "ties")
    models = ToyModels(automaton(toy, torch.float32))
    contexts = torch.zeros(5, 0, dtype=torch.int64)
    decoded = decode(
        sampler(method, config), models, contexts, torch.zeros(5, dtype=torch.int64),
        2, lambda i: draw_uniforms(config, [1, 2, 3, 4, 5], i),
    )  # fmt: skip
    for row, length in zip(decoded.tokens.tolist(), decoded.lengths.tolist(), strict=True):
        for i in range(length):
            weights = toy.target.weights(tuple(row[:i]))
            assert row[i] == weights.index(max(weights))


def test_rounds_continue_from_what_was_emitted_with_fresh_uniforms() -> None:
    config = Config(anchors=1, slots=3, beam=2, depth=2, budget=5, support=None)
    models = ToyModels(automaton(random_toy(9, 4, 4, "any"), torch.float64))
    seeds = list(range(200))
    start, none = torch.zeros(200, 0, dtype=torch.int64), torch.zeros(200, dtype=torch.int64)
    decoded = decode(sampler(config=config), models, start, none, 3, lambda i: draw_uniforms(config, seeds, i))
    tokens, lengths = start, none
    for index in range(3):
        _, path = play_round(sampler(config=config), models(tokens, lengths), draw_uniforms(config, seeds, index))
        assert torch.equal(path.lengths, decoded.rounds[:, index])
        width = int(decoded.lengths.max())
        grown = torch.full((200, width), -1)
        for row in range(200):
            n, new = int(lengths[row]), path.tokens[row, : path.lengths[row]]
            grown[row, :n], grown[row, n : n + len(new)] = tokens[row, :n], new
        tokens, lengths = grown, lengths + path.lengths
    assert torch.equal(lengths, decoded.lengths)
    assert torch.equal(tokens, decoded.tokens[:, : tokens.shape[1]])
    assert (decoded.tokens >= 0).sum() == decoded.lengths.sum()


def test_a_rejection_whose_residual_rounds_to_nothing_falls_back_to_the_target() -> None:
    """p equals q~ here, so a rejection has probability zero; forced by a coin of 1 - ulp it must not give NaN."""
    config = Config(anchors=0, slots=1, beam=1, depth=1, budget=1, support=None)
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7]))
    pair = FixedLogits(logits.expand(1, 1, 1, 3), logits.expand(1, 2, 3))
    for probe in (0.05, 0.2, 0.9):
        numbers = torch.tensor([[probe, 1 - 2.0**-53, 0.999, 0.5]], dtype=torch.float64)
        _, path = play_round(sampler(config=config), pair, split_uniforms(config, numbers))
        assert ((path.tokens[0, : path.lengths[0]] >= 0) & (path.tokens[0, : path.lengths[0]] < 3)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_round_runs_on_a_device_that_holds_no_data(
    method: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So its shapes are static, nothing is read back to the host before the checks at the end, and no tensor of the
    host is mixed in: on the meta device each of these raises."""
    config = Config()
    for check in ("check_drafts", "check_targets", "check_draws"):
        monkeypatch.setattr(verification, check, lambda *_: None)
    numbers = torch.empty(4, config.decisions, dtype=torch.float64, device="meta")

    class Nowhere:
        def draft(self, frontier: Frontier) -> Tensor:
            assert frontier.paths.shape == (4, frontier.tokens.shape[1], frontier.depth)
            return torch.empty(*frontier.tokens.shape, 32_000, dtype=dtype, device="meta")

        def target(self, tree: Tree) -> Tensor:
            return torch.empty(4, tree.tokens.shape[1] + 1, 32_000, dtype=dtype, device="meta")

    process = chain(temperature(0.7), top_k(50), top_p(0.9), min_p(0.1))
    tree, path = play_round(Sampler(config, METHODS[method], process), Nowhere(), split_uniforms(config, numbers))
    assert tree.tokens.shape == (4, 59)
    assert path.tokens.shape == (4, 9)
    assert path.tokens.device.type == "meta"


def test_the_checks_at_the_end_are_what_reads_the_device() -> None:
    config = Config(depth=1, budget=3)
    numbers = torch.empty(1, config.expansions + 3, dtype=torch.float64, device="meta")
    pair = FixedLogits(torch.empty(1, 1, 1, 50, device="meta"), torch.empty(1, 4, 50, device="meta"))
    with pytest.raises(RuntimeError, match="meta"):
        play_round(sampler(config=config), pair, split_uniforms(config, numbers))


def test_stopping_early_where_that_is_free_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = list(range(40))
    pair, uniforms = logits_for(seeds), draw_uniforms(CONFIG, seeds)
    early = play_round(sampler(), pair, uniforms)[1]
    monkeypatch.setattr(verification, "all_stopped", lambda _: False)
    late = play_round(sampler(), pair, uniforms)[1]
    assert torch.equal(early.tokens, late.tokens)
    assert torch.equal(early.rows, late.rows)
    assert torch.equal(early.lengths, late.lengths)
    for seed in seeds[:5]:  # alone, the walk stops after a step or two
        alone = play_round(sampler(), logits_for([seed]), draw_uniforms(CONFIG, [seed]))[1]
        assert torch.equal(alone.tokens[0], late.tokens[seed])


def test_check_drafts_says_nothing_about_a_good_tree() -> None:
    pair = logits_for([1])
    check_drafts(grow(pair.draft, draw_uniforms(CONFIG, [1]).probe, CONFIG, METHODS["rheo"].growth))


def test_a_budget_larger_than_all_candidates_keeps_them_all() -> None:
    config = Config(anchors=1, slots=2, beam=1, depth=2, budget=59, support=None)
    tree, path = play_round(
        sampler(config=config), logits_for([1], replace(config, budget=4)), draw_uniforms(config, [1])
    )
    assert tree.tokens.shape == (1, 4)
    assert tree.occupied.all()
    assert path.tokens.shape == (1, 3)


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


def test_uniforms_are_split_into_probes_coins_and_draws() -> None:
    numbers = torch.arange(CONFIG.decisions, dtype=torch.float64).unsqueeze(0)
    uniforms = split_uniforms(CONFIG, numbers)
    assert isinstance(uniforms, Uniforms)
    assert uniforms.coin[0, 0] == CONFIG.expansions
    assert uniforms.draw[0, 0] == CONFIG.expansions + CONFIG.depth


@pytest.mark.parametrize("vocab", [50, 5_000])
@pytest.mark.parametrize("support", [None, 700])
def test_a_draft_that_knows_one_token_has_an_anchor_and_nothing_else(vocab: int, support: int | None) -> None:
    config = replace(CONFIG, support=support)
    pair = logits_for([1, 2], config, vocab=vocab)
    pair.rows[:] = -torch.inf
    pair.rows[..., 7] = 0.0
    tree, path = play_round(sampler(config=config), pair, draw_uniforms(config, [1, 2]))
    assert (tree.tokens[tree.occupied] == 7).all()
    assert tree.occupied.sum(-1).tolist() == [3, 3]
    assert (path.lengths >= 1).all()


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


def test_the_tails_mass_is_summed_and_not_one_minus_the_anchors() -> None:
    draft = truncate(torch.tensor([[[0.0, -40.0, -41.0]]], dtype=torch.float64), None)
    assert 1 - float(draft.q[0, 0, 0]) == 0.0  # what is left beside the anchor, by subtraction
    plan = rheo.plan(draft, Config(anchors=1, slots=3, support=None))
    assert float(plan.proxy[0, 0]) == pytest.approx(np.exp(-40) + np.exp(-41), rel=1e-12)
    assert plan.proxy[0, 0] >= plan.scores[0, 0, 1]


@pytest.mark.parametrize("n", [3, 512, 513, 5_000, 131_072])
def test_an_inverse_cdf_of_many_float32_weights_does_not_drift(n: int) -> None:
    rng = np.random.default_rng(n)
    weights = torch.from_numpy(rng.random((8, n)).astype(np.float32) * (rng.random((8, n)) < 0.7))
    weights[:, 1] = 0.1
    cumulative = weights.double().cumsum(-1)
    uniform = torch.from_numpy(rng.random(8))
    uniform[0], uniform[1] = 0.0, 1 - 2.0**-53
    found = inverse_cdf(weights, uniform)
    goal = uniform * cumulative[:, -1]
    assert (weights.gather(1, found[:, None]) > 0).all()
    above = cumulative.gather(1, found[:, None])[:, 0]
    below = above - weights.double().gather(1, found[:, None])[:, 0]
    slack = 1e-9 * cumulative[:, -1]
    assert ((below <= goal + slack) & (goal <= above + slack)).all()
    assert found[0] == int((weights[0] > 0).long().argmax())


@pytest.mark.parametrize("n", [5, 700])
@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_an_inverse_cdf_of_nothing_is_the_end(n: int, value: float) -> None:
    assert inverse_cdf(torch.full((2, n), value), torch.tensor([0.0, 0.5], dtype=torch.float64)).tolist() == [n, n]


def test_uniforms_of_another_configuration_are_refused() -> None:
    pair = logits_for([1])
    for other in (replace(CONFIG, beam=2), replace(CONFIG, depth=2), replace(CONFIG, depth=4)):
        with pytest.raises(ValueError, match="uniforms"):
            play_round(sampler(), pair, draw_uniforms(other, [1]))


@pytest.mark.parametrize("n", [0, 1, 3, 32, 33, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_of_any_length_are_normalised_alike(n: int, dtype: torch.dtype) -> None:
    logits = torch.randn(50, 2, n, dtype=dtype, generator=torch.Generator().manual_seed(n)) * 30
    if n > 1:
        logits[0, 0, 0] = -torch.inf
        logits[1, 1] = -torch.inf
        logits[2, 0, 1] = torch.inf
        logits[3, 0, 0] = torch.nan
    found, wanted = softmax(logits), torch.softmax(logits, -1)
    assert torch.allclose(found, wanted, rtol=1e-5 if dtype == torch.float32 else 1e-13, atol=0, equal_nan=True)
    assert ((found == 0) == (wanted == 0)).all()
