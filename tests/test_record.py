"""Recording: the integers, the file, the layer-skipping draft, the prompts, the command."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rheo.cli.record import record as command
from rheo.models import prompts, smollm2
from rheo.models.layer_skip import skip_last_layers
from rheo.models.prompts import Prompt, PromptError, chat_ids, find_prompt, load_suite
from rheo.models.smollm2 import ModelError, load_target
from verify import cases
from verify.record import context_count, overlap, record

pytestmark = pytest.mark.model

WORDS = ["[unk]", "[end]", *(f"w{i}" for i in range(48))]
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
CONFIG = {"anchors": 1, "slots": 3, "beam": 2, "depth": 2, "budget": 5, "support": None, "temperature": "1/2"}
PROMPT = [3, 17, 9, 9, 41]


def tiny_llama(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    # A wide initialisation, since the usual one gives nearly uniform distributions, which round alike.
    config = LlamaConfig(vocab_size=len(WORDS), num_hidden_layers=4, initializer_range=0.5, eos_token_id=1, **SIZES)
    return LlamaForCausalLM(config).train(False)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_llama()


@pytest.fixture(scope="module")
def draft(target: Any) -> Any:
    return skip_last_layers(target, 2)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, target: Any) -> Path:
    """A model and a tokenizer without a chat template, as transformers saves them."""
    folder = tmp_path_factory.mktemp("model")
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[unk]"))
    words.pre_tokenizer = Whitespace()
    wrap: Any = PreTrainedTokenizerFast
    wrap(tokenizer_object=words, unk_token="[unk]", eos_token="[end]").save_pretrained(folder)
    target.save_pretrained(folder)
    return folder


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    folder = tmp_path / "questions"
    folder.mkdir()
    rows = [
        {"question_id": 81, "category": "writing", "turns": ["w3 w4 w5", "again"], "reference": ["x"]},
        {"question_id": "b/7", "category": "", "turns": ["w6\u2028w7"]},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "question.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return folder


def probabilities(model: Any, ids: list[int]) -> NDArray[np.float64]:
    """One unbatched pass over all positions and a softmax written out: nothing shared with the recorder."""
    with torch.no_grad():
        logits = np.asarray(model(torch.tensor([ids])).logits[0, -1], dtype=np.float64)
    weights = np.exp(logits - logits.max())
    result: NDArray[np.float64] = weights / weights.sum()
    return result


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


def test_no_layer_skipped_is_the_target(target: Any) -> None:
    ids = torch.tensor([PROMPT, PROMPT[::-1]])
    with torch.no_grad():
        assert torch.equal(skip_last_layers(target, 0)(ids).logits, target(ids).logits)


def test_skipping_is_an_early_exit_that_shares_weights_and_leaves_the_target_alone(target: Any) -> None:
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        before = target(ids).logits
        draft = skip_last_layers(target, 3)
        hidden = target.model.embed_tokens(ids)
        positions = target.model.rotary_emb(hidden, torch.arange(len(PROMPT))[None])
        mask = torch.full((len(PROMPT), len(PROMPT)), float("-inf")).triu(1)[None, None]
        first = target.model.layers[0](hidden, attention_mask=mask, position_embeddings=positions)
        expected = target.lm_head(target.model.norm(first))
        torch.testing.assert_close(draft(ids).logits, expected)
        assert not torch.allclose(draft(ids).logits, before)
        assert torch.equal(target(ids).logits, before)
    assert target.config.num_hidden_layers == len(target.model.layers) == 4
    assert {id(p) for p in draft.parameters()} < {id(p) for p in target.parameters()}


def test_skipping_works_where_layers_have_types() -> None:
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=20, num_hidden_layers=3, head_dim=8, **SIZES)).train(False)
    draft = skip_last_layers(model, 1)
    assert len(draft.config.layer_types) == 2
    with torch.no_grad():
        assert draft(torch.tensor([[1, 2]])).logits.shape == (1, 2, 20)


@pytest.mark.parametrize("count", [-1, 4, 9])
def test_at_least_one_layer_must_remain(target: Any, count: int) -> None:
    with pytest.raises(ModelError, match=rf"cannot skip {count} of 4 layers"):
        skip_last_layers(target, count)


def test_an_unknown_architecture_is_named() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=2, n_head=2))
    with pytest.raises(ModelError, match="cannot skip layers of GPT2LMHeadModel"):
        skip_last_layers(model, 1)


def test_a_question_folder_is_parsed(questions: Path) -> None:
    assert load_suite(str(questions)) == [
        Prompt("questions", "81", ("w3 w4 w5", "again")),
        Prompt("questions", "b/7", ("w6\u2028w7",)),
    ]


def test_questions_are_found_by_identifier_before_index() -> None:
    named = [Prompt("s", name, (name,)) for name in ("2", "1", "0", "x")]
    assert find_prompt(named, "2").identifier == "2"
    assert find_prompt(named, "3").identifier == "x"
    for key in ("4", "-1", "y", "\u00b2"):
        with pytest.raises(PromptError, match="neither an identifier nor an index below 4"):
            find_prompt(named, key)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no questions"),
        (b"{", "line 1: broken JSON"),
        (b'{"question_id": 1, "turns": ["a"]}\n[1]', "line 2: not an object"),
        (b'{"turns": ["a"]}', "line 1: no question_id"),
        (b'{"question_id": 1, "turns": []}', "line 1: turns must be"),
        (b'{"question_id": 1, "turns": "a"}', "line 1: turns must be"),
        (b'{"question_id": 1}', "line 1: turns must be"),
        (b"\xff", "decode"),
    ],
)
def test_a_broken_question_file_is_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "question.jsonl").write_bytes(content)
    with pytest.raises(PromptError, match=complaint) as caught:
        load_suite(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_unknown_suite_names_the_known_ones() -> None:
    with pytest.raises(PromptError, match=r"neither a suite \(humaneval, mt_bench\) nor a folder"):
        load_suite("nowhere")


def test_a_failed_download_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RHEO_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match="cannot download no-such-package==1") as caught:
        smollm2.package_file("no-such-package", "1", "data.txt")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_is_fetched_once_and_its_file_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    wheels.mkdir()
    info = "no_such_package-1.dist-info"
    with zipfile.ZipFile(wheels / "no_such_package-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("no_such_package/data/some.txt", "data")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: no-such-package\nVersion: 1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("RHEO_CACHE", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    with pytest.raises(ModelError, match=r"no-such-package 1 holds no other\.txt"):
        smollm2.package_file("no-such-package", "1", "other.txt")
    path = smollm2.package_file("no-such-package", "1", "no_such_package/data/some.txt")
    assert path.read_text() == "data"
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))  # nothing to download any more
    assert smollm2.package_file("no-such-package", "1", "no_such_package/data/some.txt") == path
    assert [p for p in cache.rglob("*") if p.is_file()] == [path]


def test_a_compressed_suite_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = tmp_path / "HumanEval.jsonl.gz"
    data.write_bytes(gzip.compress(b'{"task_id": "HumanEval/0", "prompt": "def f():", "test": ""}\n'))
    monkeypatch.setattr(prompts, "package_file", lambda *_: data)
    assert load_suite("humaneval") == [Prompt("humaneval", "HumanEval/0", ("def f():",))]


def test_the_default_target_is_loaded_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_folder: Path, target: Any
) -> None:
    monkeypatch.setenv("RHEO_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "package_file", lambda *_: pytest.fail("fetched again"))
    shutil.copytree(model_folder, tmp_path / "smollm2-135m-instruct")
    model, _ = load_target()
    assert model.dtype == torch.float32
    assert not model.training
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, target(ids).logits)
    assert load_target(dtype=torch.bfloat16)[0].dtype == torch.bfloat16


def test_a_file_of_an_installed_package_is_read_in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RHEO_CACHE", str(tmp_path))
    path = smollm2.package_file("click", "any version", "click/core.py")
    assert path.samefile(click.core.__file__)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None if name == "gguf" else object())
    with pytest.raises(ModelError, match=r'gguf not installed; .* extra "models"'):
        load_target("smollm2")


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load") as caught:
        load_target(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_model_is_put_on_the_device_that_was_asked_for(model_folder: Path) -> None:
    assert load_target(str(model_folder))[0].device.type == "cpu"
    assert load_target(str(model_folder), device="meta")[0].device.type == "meta"


def test_a_chat_template_wraps_the_message(model_folder: Path) -> None:
    _, tokenizer = load_target(str(model_folder))
    assert chat_ids(tokenizer, "w3 w4") == [5, 6]
    tokenizer.chat_template = "w0 {{ messages[0]['content'] }}{% if add_generation_prompt %} w1{% endif %}"
    assert chat_ids(tokenizer, "w3 w4") == [2, 5, 6, 3]


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(model_folder: Path) -> Invoke:
    def run(*arguments: object) -> Result:
        fixed = ["--target", str(model_folder), "--skip-layers", "1", "--vocab", "3"]
        return CliRunner().invoke(command, [*fixed, *map(str, arguments)])

    return run


def test_command_writes_what_record_returns(invoke: Invoke, target: Any, tmp_path: Path) -> None:
    output = tmp_path / "case.json"
    result = invoke("--prompt", "w3 w4", "--temperature", "0.5", "--support", 2, "--scale", 50, "--output", output)
    assert result.exit_code == 0, result.output
    config = CONFIG | {"support": 2, "temperature": "1/2"}
    expected = record(target, skip_last_layers(target, 1), [5, 6], 3, config, scale=50)
    assert json.loads(output.read_text()) == expected
    assert cases.load(output).config.support == 2
    assert result.stdout == f"{output}: 13 contexts of 3 tokens, mean overlap {overlap(expected):.3f} over those\n"
    assert not any(line.startswith("[") for line in result.stderr.splitlines())  # no tokens unless asked for
    assert [path.name for path in tmp_path.iterdir()] == ["case.json"]


def test_command_takes_a_question_and_advances_greedily(
    invoke: Invoke, target: Any, questions: Path, tmp_path: Path
) -> None:
    output = tmp_path / "case.json"
    result = invoke("--suite", questions, "--question", 81, "--advance", 3, "--output", output, "--verbose")
    assert result.exit_code == 0, result.output
    ids = [5, 6, 7]
    for _ in range(3):
        ids.append(int(np.argmax(probabilities(target, ids))))
    expected = record(target, skip_last_layers(target, 1), ids, 3, CONFIG | {"temperature": 1})
    assert json.loads(output.read_text()) == expected
    listed = [line for line in result.stderr.splitlines() if line.startswith("[")]
    assert len(listed) == 13
    assert "='w" in listed[0]


def test_command_does_not_advance_past_the_end_of_the_answer(
    invoke: Invoke, target: Any, tmp_path: Path, model_folder: Path
) -> None:
    stopping = shutil.copytree(model_folder, tmp_path / "stopping")
    ids = [5]
    for _ in range(3):
        ids.append(int(np.argmax(probabilities(target, ids))))
    assert ids[3] not in ids[1:3]
    (stopping / "generation_config.json").write_text(json.dumps({"eos_token_id": ids[3]}))
    for advance, code in ((2, 0), (3, 1), (9, 1)):
        result = invoke(
            "--target",
            stopping,
            "--prompt",
            "w3",
            "--advance",
            advance,
            "--output",
            tmp_path / f"{advance}.json",
        )
        assert result.exit_code == code
        assert (f"--advance {advance}: the target's answer ends with its token 3" in result.output) == bool(code)


def test_command_replaces_a_file_only_when_forced(invoke: Invoke, tmp_path: Path) -> None:
    output = tmp_path / "case.json"
    output.write_text("mine")
    refused = invoke("--prompt", "w3", "--output", output)
    assert refused.exit_code != 0
    assert "exists; --force replaces it" in refused.output
    assert output.read_text() == "mine"
    assert invoke("--prompt", "w3", "--output", output, "--force").exit_code == 0
    cases.load(output)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_write_leaves_the_old_file_alone(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any
) -> None:
    output = tmp_path / "case.json"
    output.write_text("mine")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("os.replace", fail)
    assert invoke("--prompt", "w3", "--output", output, "--force").exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["case.json"]
    assert output.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "either --suite or --prompt"),
        (["--suite", "humaneval", "--prompt", "w3"], "either --suite or --prompt"),
        (["--prompt", "w3", "--question", "1"], "--question needs --suite"),
        (["--prompt", ""], "must not be empty"),
        (["--suite", "nowhere"], "neither a suite"),
        (["--prompt", "w3", "--skip-layers", "4"], "cannot skip 4 of 4 layers"),
        (["--prompt", "w3", "--target", "no/where/at all"], "cannot load"),
        (["--prompt", "w3", "--vocab", "51"], "cannot keep 51 of 50 tokens"),
        (["--prompt", "w3", "--vocab", "30", "--depth", "3"], "more than 20000 contexts"),
        (["--prompt", "w3", "--depth", "100000"], "more than 20000 contexts"),
        (["--prompt", "w3", "--scale", "2"], "scale must be at least"),
        (["--prompt", "w3", "--anchors", "3"], "--anchors: must be less than slots"),
        (["--prompt", "w3", "--budget", "0"], "--budget: must be at least 1"),
        (["--prompt", "w3", "--support", "0"], "--support: must be at least 1"),
        (["--prompt", "w3", "--temperature", "1/0"], "--temperature"),
        (["--prompt", "w3", "--temperature", "warm"], "--temperature"),
        (["--prompt", "w3", "--temperature", "-1"], "--temperature"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    invoke: Invoke, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    result = invoke(*arguments, "--output", tmp_path / "case.json")
    assert result.exit_code != 0
    last = result.output.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert complaint in last
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_only_regular_files_in_existing_folders_are_written(invoke: Invoke, tmp_path: Path, force: list[str]) -> None:
    for output, complaint in (
        (tmp_path, "not a regular file"),
        (tmp_path / "none" / "case.json", "no folder"),
    ):
        result = invoke("--prompt", "w3", "--output", output, *force)
        assert result.exit_code != 0
        assert complaint in result.output


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
