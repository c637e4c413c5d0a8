"""A round of the torch sampler depends on its request, seed and index alone, and reads no device before its end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rheo import verification
from rheo.config import Config
from rheo.decoding import Sampler, decode, play_round
from rheo.methods import METHODS
from rheo.processors import chain, min_p, temperature, top_k, top_p
from rheo.tree import Frontier, Tree
from rheo.uniforms import Uniforms, draw_uniforms, split_uniforms
from tests.fixed_logits import CONFIG, FixedLogits, logits_for, sampler
from verify.random_toys import random_toy
from verify.torch_toys import ToyModels, automaton


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


def test_half_precision_logits_are_widened_before_anything_is_computed() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        half = logits_for([4, 6], dtype=dtype)
        wide = FixedLogits(half.rows.float(), half.all.float())
        uniforms = draw_uniforms(CONFIG, [4, 6])
        assert torch.equal(
            play_round(sampler(), half, uniforms)[1].tokens, play_round(sampler(), wide, uniforms)[1].tokens
        )


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
    assert tree.tokens.shape == (4, 8 if method in ("chain", "block") else 59)
    assert path.tokens.shape == (4, 9)
    assert path.tokens.device.type == "meta"


def test_the_checks_at_the_end_are_what_reads_the_device() -> None:
    config = Config(depth=1, budget=3)
    numbers = torch.empty(1, config.decisions, dtype=torch.float64, device="meta")
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


def test_uniforms_are_split_into_probes_coins_and_draws() -> None:
    numbers = torch.arange(CONFIG.decisions, dtype=torch.float64).unsqueeze(0)
    uniforms = split_uniforms(CONFIG, numbers)
    assert isinstance(uniforms, Uniforms)
    assert uniforms.coin[0, 0] == CONFIG.expansions
    assert uniforms.draw[0, 0] == CONFIG.expansions + CONFIG.depth
