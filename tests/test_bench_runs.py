"""`rheo bench` on models: a run that was stopped or lends to another has the same figures, bad options are one line."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rheo.cli import model_bench
from rheo.cli.models import Loaded
from rheo.methods import METHODS
from tests.conftest import Rheo
from tests.tiny_models import VOCAB, tiny_pair
from verify.benchmark import run as run_module
from verify.benchmark.conversation import answers
from verify.benchmark.plan import Plan
from verify.benchmark.texts import Models, text

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def models() -> Models:
    return tiny_pair()


class Letters:
    """A tokenizer of single characters."""

    chat_template: str | None = None
    bos_token_id = None

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % VOCAB for letter in text]}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: object) -> list[int]:
        return self("".join(f"{message['role'][0]}:{message['content']}|" for message in messages))["input_ids"]

    def decode(self, tokens: list[int], **_: object) -> str:
        return "".join(map(chr, tokens))


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def bench(rheo: Rheo, monkeypatch: pytest.MonkeyPatch, models: Models, letters: Letters, tmp_path: Path) -> Any:
    """`rheo bench` on the tiny pair, a suite of two questions and a small tree, with further arguments."""
    loaded: Any = Loaded(models.target, letters, models.drafter)  # type: ignore[arg-type]
    monkeypatch.setattr(model_bench, "load", lambda *_: loaded)
    suite = tmp_path / "tiny"
    suite.mkdir()
    rows = [json.dumps({"question_id": i, "turns": [f"question {i}", "more"]}) for i in range(4)]
    (suite / "question.jsonl").write_text("\n".join(rows))
    tree = ["--slots", 4, "--beam", 3, "--depth", 3, "--budget", 8, "--support", 16]

    def run(*arguments: object) -> tuple[int, str, str]:
        return rheo("bench", "--suite", suite, "--max-new-tokens", 8, "--contexts", 2, *tree, *arguments)

    return run


def untimed(record: Any) -> Any:
    """A result without what is measured by a clock."""
    if isinstance(record, dict):
        return {key: untimed(value) for key, value in record.items() if key != "timed"}
    return record


def test_a_run_that_was_stopped_goes_on_to_the_same_figures(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    assert bench("--json", whole)[0] == 0
    carried_out, count = run_module._carried_out, [0]

    def stopping(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] == 7:
            raise KeyboardInterrupt
        return carried_out(*arguments)

    monkeypatch.setattr(run_module, "_carried_out", stopping)
    status, out, err = bench("--json", parts)
    assert (status, out) == (130, "")
    assert "these are the figures of what was finished" in err
    stopped = json.loads(parts.read_text())
    assert (len(stopped["units"]), stopped["complete"]) == (6, False)
    assert bench("--json", parts, "--resume")[0] == 0
    first, second = json.loads(whole.read_text()), json.loads(parts.read_text())
    assert second["complete"]
    assert count[0] == 1 + len(first["units"])
    assert untimed(first["units"]) == untimed(second["units"])
    starts = [record["starts"] for record in first["units"].values() if "starts" in record]
    assert all(start >= 4 * i for each in starts for i, start in enumerate(each))  # spread over the text
    assert max(map(len, starts)) == 2
    assert {unit: second["units"][unit] for unit in stopped["units"]} == stopped["units"]
    for section in ("expected", "acceptance", "floor", "depth_one"):
        assert first["summary"][section] == second["summary"][section]
    assert [row["tau"] for row in first["summary"]["table"]] == [row["tau"] for row in second["summary"]["table"]]
    # Finished: nothing is left to run.
    assert bench("--json", parts, "--resume")[0] == 0
    assert count[0] == 1 + len(first["units"])


def test_another_run_lends_what_fits_and_no_more(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    assert bench("--seeds", 1, "--limit", 1, "--methods", "ar,topk", "--json", small)[0] == 0
    done = json.loads(small.read_text())["units"]
    carried_out, seen = run_module._carried_out, []

    def noting(models: Models, plan: Plan, unit: Any, known: Any) -> Any:
        seen.append(unit.key)
        return carried_out(models, plan, unit, known)

    monkeypatch.setattr(run_module, "_carried_out", noting)
    arguments = ("--seeds", 1, "--limit", 2, "--methods", "ar,topk", "--reuse", small)
    assert bench(*arguments, "--json", large)[0] == 0
    every = json.loads(large.read_text())["units"]
    assert not set(done) & set(seen)
    assert {key: every[key] for key in done} == done
    assert set(every) == set(done) | set(seen)
    for other in (("--depth", 2), ("--max-new-tokens", 9)):
        status, _, err = bench(*arguments, *other)
        assert status == 2
        assert "of another run: its" in err
        assert len(err.splitlines()) == 1


def keys(record: Any) -> Any:
    """The keys of a document by section, methods and other names aside."""
    if isinstance(record, list):
        return keys(record[0]) if record else None
    if isinstance(record, dict):
        named = {"units", "methods", "differences", "versions"}
        return {key: None if key in named else keys(value) for key, value in record.items()}
    return None


def test_the_documented_example_has_the_keys_of_a_real_run_and_the_terminal_shows_it(
    bench: Any, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    arguments = ("--ablations", "all", "--limit", 2, "--seeds", 1, "--max-new-tokens", 4)
    status, out, err = bench(*arguments, "--json", path)
    assert (status, out) == (0, "")
    example = json.loads((Path(__file__).parent / "data" / "bench.json").read_text())
    real = json.loads(path.read_text())
    assert keys(real) == keys(example)
    for title in ("expected tau at the same round starts", "expected tau by support", "numeric floor", "T = 1"):
        assert title in err


def test_all_methods_meet_rheo_at_every_temperature_and_size_in_shapes_of_their_own(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    arguments = ("--methods", ",".join(METHODS), "--ablations", "budget,temperature", "--limit", 2, "--seeds", 1)
    assert bench(*arguments, "--max-new-tokens", 4, "--contexts", 1, "--json", path)[0] == 0
    found = json.loads(path.read_text())["summary"]
    rows = {(row["temperature"], row["budget"], row["method"]): row for row in found["grid"]}
    assert set(rows) == set(product((0.0, 0.3, 0.6, 1.0), (8, 15, 31, 59), METHODS))
    assert all(row["differences"]["rheo"]["interval"] for (_, _, name), row in rows.items() if name != "rheo")
    assert set(found["depth_one"]["methods"]) == set(METHODS)
    for each in found["depth_one"]["methods"].values():
        assert each["accepted"] <= each["bound"] + 0.03
    assert [each["temperature"] for each in found["shapes"]] == [1.0, 0.0, 0.3, 0.6]
    for each in found["shapes"]:
        assert 0 < sum(each["acceptance"]) <= 1 + 1e-5
        assert {(choice["method"], choice["budget"]) for choice in each["choices"]} == set(
            product(("specinfer", "spectr"), (8, 15, 31, 59))
        )


def test_without_texts_there_are_contexts_where_every_method_also_emits(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert bench("--methods", "ar,rheo,rheo-transport", "--seeds", 0, "--limit", 2, "--json", path)[0] == 0
    document = json.loads(path.read_text())
    assert {key.split("/")[0] for key in document["units"]} == {"contexts", "floor"}
    found = document["summary"]
    assert not found["table"]
    assert not found["time"]
    for row in found["expected"]:
        emitted = [
            unit["variants"]["base"]["methods"][row["method"]]["emitted"]
            for key, unit in document["units"].items()
            if key.startswith("contexts/")
        ]
        assert row["sampled"] == pytest.approx(sum(map(sum, emitted)) / sum(map(len, emitted)))
        assert row["excess"]["mean"] == pytest.approx(row["sampled"] - row["tau"])


def test_later_turns_follow_on_one_answer_for_all_and_count_to_their_question(
    bench: Any, letters: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.chat_template = "any"
    asked, answered = [], []

    def noting(models: Models, plan: Plan, method: str, prompt: Any, *rest: Any) -> Any:
        asked.append((method, list(prompt)))
        return text(models, plan, method, prompt, *rest)

    def answering(*arguments: Any) -> Any:
        answered.append(arguments[2].name)
        return answers(*arguments)

    monkeypatch.setattr(run_module, "text", noting)
    monkeypatch.setattr(run_module, "answers", answering)
    path = tmp_path / "run.json"
    arguments = ("--turns", "all", "--methods", "ar,rheo", "--limit", 1, "--seeds", 2)
    assert bench(*arguments, "--json", path)[0] == 0
    units = json.loads(path.read_text())["units"]
    texts = {
        f"text/tiny/{place}/{name}/{seed}/T=1" for place in ("0", "0:2") for name in ("ar", "rheo") for seed in (0, 1)
    }
    assert {key for key in units if key.startswith("text/")} == texts
    assert len({units[key]["digest"] for key in texts if "/ar/" in key}) == 4  # no two draw alike
    assert answered == ["0"]
    (answer,) = units["answers/tiny/0/ar/0/T=1"]["answers"]
    assert len(answer) == 8
    first, second = letters("u:question 0|"), letters(f"u:question 0|a:{answer}|u:more|")
    expected = [first["input_ids"], second["input_ids"]]
    warm_up, after = asked[:2], asked[2:]
    assert [prompt for _, prompt in warm_up] == [first["input_ids"]] * 2
    assert sorted(after) == sorted((method, prompt) for method in ("ar", "rheo") for prompt in expected * 2)
    # The two turns depend on each other: they are one sample of a question, of which no interval can be made.
    row = json.loads(path.read_text())["summary"]["table"][1]
    assert row["prompts"] == 1
    assert row["rounds"] > 2
    assert row["interval"] is None
    # What was stopped between the turns goes on with the same answer.
    whole, parts = {**units}, tmp_path / "parts.json"
    document = json.loads(path.read_text())
    document["units"] = {key: unit for key, unit in units.items() if "0:2" not in key}
    parts.write_text(json.dumps(document))
    assert bench(*arguments, "--json", parts, "--resume")[0] == 0
    assert untimed(json.loads(parts.read_text())["units"]) == untimed(whole)


def test_later_turns_need_a_chat_template(bench: Any) -> None:
    status, out, err = bench("--turns", "all")
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "has questions of several turns, the tokenizer no chat template" in err


def test_a_long_run_without_a_file_prints_its_figures(bench: Any) -> None:
    status, out, err = bench("--methods", "ar,rheo", "--seeds", 1, "--limit", 1)
    assert (status, err) == (0, "")
    assert "rheo" in out
    assert "speed-up" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "ar,nonsense"), "--methods: no nonsense"),
        (("--methods", ""), "--methods: no empty name"),
        (("--ablations", "size"), "--ablations: no size"),
        (("--resume",), "--resume needs --json"),
        (("--anchors", "9"), "--anchors: must be less than slots"),
        (("--suite", "/nowhere"), "/nowhere: neither a suite"),
        (("--json", "/no/x"), "/no: no such folder"),
        (("--reuse", __file__), "no result of rheo bench"),
        (("--temperature", "nan"), "nan is no number"),
    ],
)
def test_bad_options_are_one_line(bench: Any, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = bench(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_question_that_does_not_fit_is_named(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny" / "question.jsonl").write_text(json.dumps({"question_id": 7, "turns": ["x" * 600]}))
    status, _, err = bench()
    assert status == 2
    assert "tiny, question 7: prompt 0 has 600 tokens" in err


def test_options_of_full_models_are_refused_before_a_subcommand(rheo: Rheo) -> None:
    status, _, err = rheo("bench", "--limit", 3, "sampler")
    assert (status, err) == (2, "rheo: sampler does not take --limit\n")
