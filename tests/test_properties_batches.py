"""Requests of a batch do not see each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from properties import batches, profiles
from properties.strategies import Request, cases
from properties.strategies import batches as any_batches
from rheo.config import Config
from rheo.decoding import Pair, Sampler
from rheo.methods import METHODS, Method
from rheo.rules import RULES
from rheo.rules.children import Children
from verify.cases import Case
from verify.random_toys import random_toy
from verify.torch_toys import ToyModels, ToyPair, automaton

pytestmark = pytest.mark.exact

METHOD = st.sampled_from(sorted(METHODS))
DTYPE = st.sampled_from((torch.float32, torch.float64))
CASE = Case("any", random_toy(2, 4, 4, "any"), Config(1, 3, 2, 2, 5, None, 1.0))
REQUESTS = [Request((), 1), Request((2, 1), 2), Request((0,), 3), Request((), 4), Request((3, 3, 3), 5)]


@st.composite
def played(draw: st.DrawFn) -> tuple[Case, list[Request]]:
    case = draw(cases(deepest=3))
    return case, draw(any_batches(case.toy.vocab))


@given(drawn=played(), method=METHOD, dtype=DTYPE)
@profiles.scaled(2)
def test_a_request_gets_its_tree_and_path_in_any_company_and_row(
    drawn: tuple[Case, list[Request]], method: str, dtype: torch.dtype
) -> None:
    case, requests = drawn
    batches.rounds_do_not_see_their_batch(
        Sampler(case.config, METHODS[method]), ToyModels(automaton(case.toy, dtype)), requests
    )


@given(drawn=played(), method=METHOD, extra=st.integers(0, 3), junk=st.sampled_from((-1, 0, -7, 10**9)))
def test_a_request_decodes_the_same_behind_any_padding(
    drawn: tuple[Case, list[Request]], method: str, extra: int, junk: int
) -> None:
    case, requests = drawn
    sampler, models = Sampler(case.config, METHODS[method]), ToyModels(automaton(case.toy, torch.float64))
    batches.decoding_does_not_see_padding(sampler, models, requests, rounds=2, extra=extra, junk=junk)


def shared_coins(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    return RULES["probe_first"](p, children, coin[:1].expand_as(coin))


def test_rows_that_share_a_coin_are_found() -> None:
    right = Sampler(CASE.config, METHODS["rheo"])
    models = ToyModels(automaton(CASE.toy, torch.float64))
    wrong = replace(right, method=Method(METHODS["rheo"].growth, shared_coins))
    batches.rounds_do_not_see_their_batch(right, models, REQUESTS)
    batches.rounds_do_not_see_their_batch(wrong, models, REQUESTS[:1])
    with pytest.raises(AssertionError):
        batches.rounds_do_not_see_their_batch(wrong, models, REQUESTS)
    with pytest.raises(AssertionError):
        batches.decoding_does_not_see_padding(wrong, models, REQUESTS, rounds=2, extra=0, junk=-1)


@dataclass(frozen=True)
class PaddedPositions:
    """Models that count positions from the padded width."""

    right: ToyModels

    def __call__(self, contexts: Tensor, lengths: Tensor) -> Pair:
        table = self.right.table
        return ToyPair(table, (table.after(contexts, torch.zeros_like(lengths)) + contexts.shape[1]) % len(table.step))


def test_models_that_count_padding_are_found() -> None:
    sampler = Sampler(CASE.config, METHODS["rheo"])
    models = ToyModels(automaton(CASE.toy, torch.float64))
    batches.decoding_does_not_see_padding(sampler, models, REQUESTS, rounds=2, extra=2, junk=3)
    with pytest.raises(AssertionError):
        batches.decoding_does_not_see_padding(sampler, PaddedPositions(models), REQUESTS, rounds=2, extra=2, junk=3)
