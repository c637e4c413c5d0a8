"""`rheo rescore`: emitted text in, a trace for `rheo audit` out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rheo.config import Config
from rheo.decoding import Sampler
from rheo.methods import METHODS
from rheo.models.generation import Limits
from rheo.processors import chain, min_p, temperature, top_k, top_p
from tests.conftest import Rheo
from tests.tiny_folders import words, write_target
from tests.tiny_models import CONFIG, VOCAB, full_logits, head_tensors, skipping, tiny_target, write_head
from verify import rescore as rescoring
from verify.models.plain import target_logits
from verify.models.texts import Text, emitted, judged

pytestmark = pytest.mark.model

PROMPT, TOKENS = [3, 17, 9], [41, 2, 6, 30]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def sampled() -> dict[float, list[Text]]:
    """4,800 tokens of rheo's at two temperatures."""
    model = tiny_target()
    models = judged(model, skipping(model))
    rng = np.random.default_rng(0)
    prompts = [rng.integers(VOCAB, size=2 + i % 7).tolist() for i in range(120)]
    found = {}
    for heat in (1.0, 0.7):
        config = Config(**{**vars(CONFIG), "temperature": heat})
        found[heat] = emitted(models, Sampler(config, METHODS["rheo"]), prompts, range(120), Limits(40))
    return found


def write(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def requests_of(texts: Iterable[Text], **more: Any) -> list[dict[str, Any]]:
    return [{"prompt_token_ids": list(text.prompt), "token_ids": list(text.tokens), **more} for text in texts]


def p_tokens(path: Path) -> Any:
    return np.load(path)["p_token"]


@pytest.mark.parametrize("draft", [(), ("--draft", "skip:5")])
@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_text_of_the_sampler_is_lossless_once_rescored(
    rheo: Rheo, target: Path, sampled: dict[float, list[Text]], tmp_path: Path, draft: tuple[str, ...], suffix: str
) -> None:
    texts, trace = write(tmp_path / "texts.jsonl", requests_of(sampled[1.0])), tmp_path / f"trace{suffix}"
    status, out, _ = rheo("rescore", texts, "--target", target, *draft, "--output", trace)
    assert (status, out.count("4,800 tokens of 120 requests, ordered by")) == (0, 1)
    assert rheo("audit", trace, "--tokens", 4800)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl", trace.name]


def test_text_of_another_temperature_is_lossy_and_lossless_where_the_request_says_so(
    rheo: Rheo, target: Path, sampled: dict[float, list[Text]], tmp_path: Path
) -> None:
    said = write(tmp_path / "said.jsonl", requests_of(sampled[0.7], temperature=0.7))
    silent = write(tmp_path / "silent.jsonl", requests_of(sampled[0.7]))
    for name, texts, options, verdict in (
        ("a", said, (), 0),
        ("b", silent, (), 1),
        ("c", silent, ("--temperature", "0.7"), 0),
    ):
        trace = tmp_path / f"{name}.npz"
        assert rheo("rescore", texts, "--target", target, *options, "--output", trace)[0] == 0
        assert rheo("audit", trace)[0] == verdict


def test_the_numbers_are_those_of_a_forward_over_the_whole_text(rheo: Rheo, target: Path, tmp_path: Path) -> None:
    line: dict[str, Any] = {"prompt_token_ids": PROMPT, "token_ids": TOKENS, "request": 5}
    settings: dict[str, Any] = {"temperature": 0.5, "top_k": 9, "top_p": 0.9, "min_p": 0.01}
    texts = write(tmp_path / "texts.jsonl", [line, {**line, **settings, "request": 8}])
    assert rheo("rescore", texts, "--target", target, "--draft", "skip:5", "--output", tmp_path / "t.npz")[0] == 0
    got = np.load(tmp_path / "t.npz")
    assert str(got["order"]) == "p/q"
    assert got["request"].tolist() == [5] * 4 + [8] * 4 and got["position"].tolist() == [0, 1, 2, 3] * 2
    model = tiny_target()
    (logits,), (drafted,) = (full_logits(each, [PROMPT + TOKENS]) for each in (model, skipping(model).model))
    chosen = torch.tensor(TOKENS)[:, None]
    processes = (temperature(1), chain(temperature(0.5), top_k(9), top_p(0.9), min_p(0.01)))
    for rows, process, heat in zip((slice(4), slice(4, 8)), processes, (1, 0.5), strict=True):
        p = torch.softmax(process(logits[2:-1]).double(), -1)
        q = torch.softmax(drafted[2:-1].double() / heat, -1)
        np.testing.assert_allclose(got["p_token"][rows], p.gather(1, chosen)[:, 0], atol=1e-6)
        np.testing.assert_allclose(got["q_token"][rows], q.gather(1, chosen)[:, 0], atol=1e-6)
        ratio = p / q
        before = torch.where(ratio > ratio.gather(1, chosen), p, 0.0).sum(-1)
        np.testing.assert_allclose(got["p_before"][rows], before, atol=1e-6)


def test_a_trace_that_names_its_tokens_is_as_good_as_its_requests(rheo: Rheo, target: Path, tmp_path: Path) -> None:
    """Rows of requests may alternate, a line of its own may bring the prompt, and so may the first row."""
    rows: list[dict[str, Any]] = [
        {"request": r, "position": i, "token": t, "p_token": 0.5} for i, t in enumerate(TOKENS) for r in (4, 2)
    ]
    rows[0] |= {"prompt_token_ids": PROMPT}
    trace = write(tmp_path / "rows.jsonl", [{"order": "p"}, {"request": 2, "prompt": words(7)}, *rows])
    both = [{"prompt_token_ids": [7], "token_ids": TOKENS}, {"prompt_token_ids": PROMPT, "token_ids": TOKENS}]
    texts = write(tmp_path / "texts.jsonl", both)
    for name in (trace, texts):
        assert rheo("rescore", name, "--target", target, "--output", name.with_suffix(".npz"))[0] == 0
    np.testing.assert_array_equal(p_tokens(trace.with_suffix(".npz")), p_tokens(texts.with_suffix(".npz")))


def test_text_without_token_ids_is_tokenised_with_a_warning(rheo: Rheo, target: Path, tmp_path: Path) -> None:
    texts = write(tmp_path / "texts.jsonl", [{"prompt": words(*PROMPT), "text": words(*TOKENS)}])
    exact = write(tmp_path / "exact.jsonl", [{"prompt_token_ids": PROMPT, "token_ids": TOKENS}])
    status, _, err = rheo("rescore", texts, "--target", target, "--output", tmp_path / "a.npz")
    assert status == 0 and err.count("\n") == 1 and "1 of 1 requests give text without token_ids" in err
    status, _, err = rheo("rescore", exact, "--target", target, "--output", tmp_path / "b.npz")
    assert (status, err) == (0, "")
    np.testing.assert_array_equal(p_tokens(tmp_path / "a.npz"), p_tokens(tmp_path / "b.npz"))


def test_tokens_behind_the_end_of_a_sequence_are_left_out(
    rheo: Rheo, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheo.models.causal.eos_tokens", lambda model: frozenset([TOKENS[1]]))
    texts = write(tmp_path / "texts.jsonl", [{"prompt_token_ids": PROMPT, "token_ids": TOKENS}])
    status, out, _ = rheo("rescore", texts, "--target", target, "--output", tmp_path / "a.npz")
    assert status == 0 and "2 tokens of 1 requests" in out and "2 behind an end of sequence left out" in out


def test_a_head_gives_q_too(rheo: Rheo, target: Path, sampled: dict[float, list[Text]], tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", head_tensors())
    texts = write(tmp_path / "texts.jsonl", requests_of(sampled[1.0]))
    assert rheo("rescore", texts, "--target", target, "--draft", head, "--output", tmp_path / "t.npz")[0] == 0
    q = np.load(tmp_path / "t.npz")["q_token"]
    assert 0 < np.mean(q == 0) < 1  # what the head's vocabulary lacks is emitted all the same
    assert rheo("audit", tmp_path / "t.npz")[0] == 0


GOOD = {"prompt_token_ids": PROMPT, "token_ids": TOKENS}
ROW = {"request": 1, "position": 0, "token": 3, "prompt_token_ids": PROMPT}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["{"], "line 1: broken JSON"),
        (["[1]"], "line 1: not an object"),
        ([], "no emitted tokens"),
        ([{**GOOD, "token_ids": []}], "no emitted tokens"),
        ([{"prompt_token_ids": PROMPT}], "line 1: neither token_ids nor text"),
        ([{"token_ids": TOKENS}], "line 1: neither prompt_token_ids nor prompt"),
        ([GOOD, {**GOOD, "prompt_token_ids": []}], "line 2: a prompt of 0 tokens, at least 1"),
        ([{**GOOD, "token_ids": [1, 48]}], r"line 1: token 48 is outside 0\.\.47"),
        ([{**GOOD, "token_ids": [1, "x"]}], "line 1: token_ids is not an integer: 'x'"),
        ([{**GOOD, "token_ids": 3}], "line 1: token_ids is not a list"),
        ([{**GOOD, "token_ids": TOKENS * 200}], "line 1: 803 tokens, the target's context ends at 512"),
        ([GOOD, {**GOOD, "request": 0}], "line 2: request 0 a second time"),
        ([{**GOOD, "temperature": -1}], "line 1: temperature: must be 0, or between"),
        ([{**GOOD, "temperature": "warm"}], "line 1: temperature is not a number: 'warm'"),
        ([{**GOOD, "top_p": 0}], r"line 1: top_p must be in \(0, 1\], got 0"),
        ([{**GOOD, "top_k": 2.5}], "line 1: top_k is not an integer"),
        ([{**GOOD, "repetition_penalty": 1.1}], "line 1: repetition_penalty: p under it is not known"),
        ([{**GOOD, "logit_bias": {"3": 2}}], "line 1: logit_bias: p under it is not known"),
        ([ROW, {**ROW, "position": 2}], "line 2: request 1: position 2, not 1"),
        ([{**ROW, "token_ids": TOKENS}], "line 1: request 1 has rows, and token_ids or text beside them"),
    ],
)
def test_what_cannot_be_rescored_is_one_line(
    lines: list[Any], reason: str, rheo: Rheo, target: Path, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    status, out, err = rheo("rescore", texts, "--target", target, "--output", tmp_path / "t.npz")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.search(reason, err), err
    assert not (tmp_path / "t.npz").exists()


def test_settings_that_change_nothing_are_no_fault(rheo: Rheo, target: Path, tmp_path: Path) -> None:
    neutral: dict[str, Any] = {
        "top_k": -1,
        "top_p": 1.0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "logit_bias": {},
    }
    for name, more in (("a", {}), ("b", neutral)):
        texts = write(tmp_path / f"{name}.jsonl", [{**GOOD, **more}])
        assert rheo("rescore", texts, "--target", target, "--output", tmp_path / f"{name}.npz")[0] == 0
    np.testing.assert_array_equal(p_tokens(tmp_path / "a.npz"), p_tokens(tmp_path / "b.npz"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--order", "p/q"), "--order p/q needs --draft"),
        (("--output", "x.parquet"), "the suffix is none of .npz, .jsonl"),
        (("--output", "nowhere/x.npz"), "no such folder"),
        (("--device", "warp"), "--device warp"),
        (("--draft", "skip:99"), "cannot skip 99 of 8 layers"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_line(
    arguments: tuple[str, ...], reason: str, rheo: Rheo, target: Path, tmp_path: Path
) -> None:
    texts = write(tmp_path / "texts.jsonl", [GOOD])
    status, _, err = rheo("rescore", texts, "--target", target, "--output", tmp_path / "t.npz", *arguments)
    assert (status, err.count("\n")) == (2, 1) and reason in err


def test_a_trace_is_never_written_over(rheo: Rheo, target: Path, tmp_path: Path) -> None:
    (tmp_path / "t.npz").write_text("mine")
    texts = write(tmp_path / "texts.jsonl", [GOOD])
    status, _, err = rheo("rescore", texts, "--target", target, "--output", tmp_path / "t.npz")
    assert status == 2 and "never written over" in err and (tmp_path / "t.npz").read_text() == "mine"


def test_an_interrupt_leaves_no_file(rheo: Rheo, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return target_logits(*arguments)

    monkeypatch.setattr(rescoring, "target_logits", interrupted)
    monkeypatch.setattr("verify.models.plain._ENTRIES", 1)
    texts = write(tmp_path / "texts.jsonl", [GOOD] * 3)
    for name in ("t.npz", "t.jsonl"):
        calls.clear()
        assert rheo("rescore", texts, "--target", target, "--output", tmp_path / name)[0] == 130
        assert len(calls) == 2
        assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]
