"""`rheo generate`: text as it comes, its origins and figures, and one line for whatever is wrong."""

from __future__ import annotations

import io
import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rheo.cli.generate import acceptance
from rheo.decoding import play_round
from rheo.models import generation
from rheo.models.pieces import Pending, last_piece, next_piece
from tests.conftest import Rheo
from tests.tiny_models import SIZES

TREE = ("--slots", 4, "--beam", 3, "--depth", 4, "--budget", 12, "--support", 16)
ESCAPE = "\x1b["


def byte_tokenizer() -> Any:
    """A token a byte, and one that ends a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: index for index, letter in enumerate(alphabet)} | {"<end>": 256}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped: Any = PreTrainedTokenizerFast
    return wrapped(tokenizer_object=tokenizer, eos_token="<end>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that speaks in bytes, and its tokenizer."""
    where = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    sizes = SIZES | {"vocab_size": 257, "max_position_embeddings": 128}
    LlamaForCausalLM(LlamaConfig(num_hidden_layers=4, **sizes)).save_pretrained(where)
    byte_tokenizer().save_pretrained(where)
    return where


def options(folder: Path) -> tuple[object, ...]:
    return ("--target", folder, "--draft", "skip:1", "--max-new-tokens", 40, *TREE)


TEXTS = ["plain", "ünïcödé — “quotes” 漢字 🙂🙃 ", "\n\ttabs\n", "👩‍👩‍👧 e\u0301", "� stays"]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_whole_characters_and_together_the_text(text: str) -> None:
    tokenizer = byte_tokenizer()
    pieces, pending = [], Pending()
    for token in tokenizer(text)["input_ids"]:
        piece, pending = next_piece(tokenizer, pending, token)
        pieces.append(piece)
    assert "".join(pieces) + last_piece(tokenizer, pending) == text
    assert all("�" not in piece for piece in pieces) or "�" in text
    assert len([piece for piece in pieces if piece]) >= len(text) - text.count("�")  # no character waits for the next


def test_pieces_of_any_tokens_are_together_what_they_decode_to() -> None:
    tokenizer, rng = byte_tokenizer(), random.Random(1)
    for _ in range(200):
        tokens = [rng.choice([256, *range(256)]) for _ in range(12)]
        text, pending = "", Pending()
        for token in tokens:
            piece, pending = next_piece(tokenizer, pending, token)
            text += piece
        assert text + last_piece(tokenizer, pending) == tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.model
def test_text_goes_to_standard_output_while_it_is_made_and_figures_to_standard_error(
    rheo: Rheo, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def watched(*arguments: Any) -> Any:
        sys.stdout.flush()
        written.append(len(getattr(sys.stdout, "getvalue")()))  # noqa: B009  # a capture's own
        return play_round(*arguments)

    monkeypatch.setattr(generation, "play_round", watched)
    status, out, err = rheo("generate", "hello", *options(folder))
    assert status == 0
    assert ESCAPE not in out + err
    assert written[0] == 0
    assert len(set(written)) > len(written) // 2
    assert "40 tokens, " in err
    assert "ended by the number of new tokens" in err
    assert "accepted at depth 1: " in err


@pytest.mark.model
def test_json_is_one_line_with_what_the_text_is_made_of(rheo: Rheo, folder: Path) -> None:
    _, plain, _ = rheo("generate", "hello", *options(folder))
    status, out, _ = rheo("generate", "hello", *options(folder), "--json", "--show-tree", 2)
    assert status == 0
    assert out.count("\n") == 1
    record = json.loads(out)
    assert record["text"] == plain.removesuffix("\n")
    assert record["text"] == byte_tokenizer().decode(record["tokens"], skip_special_tokens=True)
    assert len(record["tokens"]) == len(record["origins"]) == 40
    assert set(record["origins"]) <= set(generation.ORIGINS)
    ends = [origin in ("residual", "bonus") for origin in record["origins"]]
    assert sum(ends) in (record["rounds"], record["rounds"] - 1)  # the last may be cut off
    assert record["end"] == "length"
    assert record["acceptance"][0]["rounds"] == record["rounds"]
    drafted = sum(each["rounds"] * each["share"] for each in record["acceptance"])
    assert record["tau"] == pytest.approx(1 + drafted / record["rounds"])
    tree = record["tree"]
    accepted = [index + 1 for index, row in enumerate(tree["rows"]) if row["accepted"]]
    assert tree["round"] == 2
    assert len(accepted) == tree["accepted"]
    assert [tree["rows"][row - 1]["parent"] for row in accepted] == [0, *accepted][: len(accepted)]
    assert tree["end"] == (accepted[-1] if accepted else 0)
    second = ends.index(True) + 1
    emitted = [tree["rows"][row - 1]["token"] for row in accepted] + [tree["last"]["token"]]
    assert record["tokens"][second : second + len(emitted)] == emitted


@pytest.mark.model
def test_a_terminal_gets_colours_and_a_legend_and_the_tree_on_standard_output(
    rheo: Rheo, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = json.loads(rheo("generate", "hello", *options(folder), "--json")[1])["text"]
    status, out, err = rheo("generate", "hello", *options(folder), "--show-tree")
    assert status == 0
    assert err == ""
    assert "".join(each for each in text if each.isprintable() or each in "\n\t") in re.sub("\x1b\\[[0-9;]*m", "", out)
    for origin, colour in (("anchor", 32), ("probe", 35), ("filler", 33), ("residual", 31), ("bonus", 34)):
        assert f"{ESCAPE}{colour}m{origin}" in out.splitlines()[0]
    assert "round 1: 12 drafted" in out
    assert "tokens/s" in out


@pytest.mark.model
def test_a_prompt_may_come_from_standard_input(rheo: Rheo, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted, _ = rheo("generate", "hello", *options(folder))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n"), encoding="utf-8"))
    assert rheo("generate", "-", *options(folder))[1] == wanted


@pytest.mark.model
def test_a_stop_text_a_seed_and_processors_change_what_is_made(rheo: Rheo, folder: Path) -> None:
    def made(*more: object) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(rheo("generate", "hello", *options(folder), "--json", *more)[1])
        return record

    plain = made()
    letter = next(char for char in plain["text"][3:] if char.isascii())
    stopped = made("--stop", letter)
    assert stopped["end"] == "stop"
    assert stopped["text"] == plain["text"][: plain["text"].index(letter) + 1]
    assert made("--seed", 5)["tokens"] != plain["tokens"]
    once = made("--no-repeat-ngram", 1)["tokens"]
    assert len(set(once)) == len(once)
    assert made("--repetition-penalty", 1e9, "--temperature", 0)["tokens"] != made("--temperature", 0)["tokens"]
    assert made("--top-k", 1)["tokens"] == made("--temperature", 0)["tokens"]


@pytest.mark.model
@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_keeps_what_was_made_and_ends_with_130(
    as_json: bool, rheo: Rheo, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Any] = []

    def interrupted(*arguments: Any) -> Any:
        if len(played) == 3:
            raise KeyboardInterrupt
        played.append(play_round(*arguments))
        return played[-1]

    monkeypatch.setattr(generation, "play_round", interrupted)
    status, out, err = rheo("generate", "hello", *options(folder), *["--json"] * as_json)
    assert status == 130
    assert "3 rounds" in err
    assert err.splitlines()[-1] == "rheo: interrupted"
    if as_json:
        record = json.loads(out)
        assert (record["complete"], record["end"], record["rounds"]) == (False, None, 3)
        assert len(record["tokens"]) == sum(int(path.lengths[0]) for _, path in played)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--target", "FOLDER"], "PROMPT must not be empty"),
        (["x", "--target", "FOLDER", "--stop", ""], "--stop must not be empty"),
        (["x", "--target", "/nowhere/at/all"], "cannot load /nowhere/at/all"),
        (["x", "--target", "FOLDER", "--draft", "skip:9"], "cannot skip 9 of 4 layers"),
        (["x" * 128, "--target", "FOLDER", "--draft", "skip:1"], "128 tokens, and the target's context ends at 128"),
        (["x", "--target", "FOLDER", "--slots", "1"], "--anchors: must be less than slots (1), got 1"),
        (["x", "--temperature", "nan"], "'--temperature': nan is no number"),
        (["x", "--top-p", "0"], "'--top-p'"),
        (["x", "--repetition-penalty", "0"], "'--repetition-penalty'"),
    ],
)
def test_whatever_is_wrong_is_said_in_one_line_with_status_2(
    arguments: list[str], message: str, rheo: Rheo, folder: Path
) -> None:
    status, out, err = rheo("generate", *(str(folder) if each == "FOLDER" else each for each in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("rheo: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.model
def test_a_round_that_never_came_is_said_to_be_missing(rheo: Rheo, folder: Path) -> None:
    status, _, err = rheo("generate", "hello", *options(folder), "--show-tree", 999)
    assert status == 0
    assert "rheo: --show-tree 999: there were" in err


def test_acceptance_by_depth_counts_the_rounds_that_got_there() -> None:
    found = acceptance([0, 1, 3, 1], deepest=3)
    assert [(each["depth"], each["rounds"]) for each in found] == [(1, 4), (2, 3), (3, 1)]
    assert [each["share"] for each in found] == pytest.approx([3 / 4, 1 / 3, 1])
    assert acceptance([], deepest=3) == []
    assert len(acceptance([0], deepest=3)) == 1
