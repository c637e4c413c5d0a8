"""The command line: what it prints, and its exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from reference.methods import METHODS, PAPER
from tests.conftest import SHARED_CASES
from verify import gate
from verify.cases import load
from verify.controls import CONTROLS, Control
from verify.judgement import judge_reference

ROOT = Path(__file__).parents[1]
TOYS = ROOT / "verify" / "data" / "toys"
TIES, HOT = str(TOYS / "ties.json"), str(TOYS / "hot.json")


def test_law_prints_a_json_object_a_line_for_all_three_methods(rheo) -> None:  # type: ignore[no-untyped-def]
    status, out, err = rheo("law", TIES, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert [line["method"] for line in lines] == ["rheo", "rrsw", "topk"]
    assert lines[0] == {
        "case": TIES, "method": "rheo", "backend": "reference", "tv": "0", "accepted": "373/240", "tau": "613/240",
        "classes": 9, "lossless": True, "posterior_ok": True,
    }  # fmt: skip
    assert lines[2]["posterior_ok"] is None


def test_law_of_the_torch_backend_is_in_numbers(rheo) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = rheo("law", TIES, "--backend", "torch", "--method", "rrsw", "--json")
    (line,) = [json.loads(line) for line in out.splitlines()]
    assert line["accepted"] == pytest.approx(523 / 384, abs=1e-9)
    assert line["tau"] == pytest.approx(1 + 523 / 384, abs=1e-9)
    assert 0 <= line["tv"] < 1e-12
    assert line["lossless"] is True


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_law_lists_the_probability_of_every_sequence(rheo, backend: str) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = rheo("law", TIES, "--law", "--json", "--method", "rheo", "--backend", backend)
    law = json.loads(out)["law"]
    case = load(TIES)
    assert len(law) == case.toy.vocab ** (case.config.depth + 1)
    assert float(sum(Fraction(mass) for mass in law.values())) == pytest.approx(1, abs=1e-12)
    p = case.toy.target.weights(())
    starts = sum(Fraction(mass) for key, mass in law.items() if key.startswith("0,"))
    assert float(starts) == pytest.approx(p[0] / sum(p), abs=1e-12)


def test_law_without_json_adds_a_table_on_standard_error_only(rheo) -> None:  # type: ignore[no-untyped-def]
    _, out, err = rheo("law", TIES)
    assert all(json.loads(line) for line in out.splitlines())
    assert "accepted" in err


def test_law_where_the_temperature_is_irrational_is_in_floats(rheo) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = rheo("law", HOT, "--json")
    assert status == 0
    assert all(isinstance(json.loads(line)["accepted"], float) for line in out.splitlines())


def test_bad_files_do_not_stop_the_others_and_the_largest_status_wins(rheo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    status, out, err = rheo("law", tmp_path / "none.json", TIES, broken, "--json", "--method", "topk")
    assert status == 2
    assert len(out.splitlines()) == 1
    lines = err.splitlines()
    assert len(lines) == 2
    assert "none.json" in lines[0]
    assert "broken.json" in lines[1]


def test_too_many_trees_is_inconclusive(rheo) -> None:  # type: ignore[no-untyped-def]
    status, out, err = rheo("law", TIES, "--limit", "3", "--method", "rheo", "--json")
    assert (status, out) == (3, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["law"],
        ["law", TIES, "--method", "eagle"],
        ["nonsense"],
        ["verify", "--no-such-flag"],
        ["law", TIES, "--limit", "x"],
    ],
    ids=lambda value: value[-1][-12:],
)
def test_a_wrong_command_line_is_one_line_and_status_2(rheo, arguments: list[str]) -> None:  # type: ignore[no-untyped-def]
    status, out, err = rheo(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_a_method_that_is_named_is_checked_alone_and_replayed(  # type: ignore[no-untyped-def]
    rheo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, out, _ = rheo("verify", TIES, "--method", "sequoia", "--failures", tmp_path, "--json", tmp_path / "a")
    checks = json.loads((tmp_path / "a").read_text())["checks"]
    assert (status, {check["method"] for check in checks}) == (0, {"sequoia"})
    monkeypatch.setattr(gate, "toy_disagreements", lambda *_: ["torch there, reference here"])
    status, out, _ = rheo("verify", TIES, "--method", "sequoia", "--failures", tmp_path)
    assert status == 1
    assert "rheo verify --method sequoia" in " ".join(out.split())
    status, _, err = rheo("verify", "--sampler", "x:y", "--method", "rheo")
    assert (status, len(err.splitlines())) == (2, 1)


def test_a_lossy_law_has_status_1(rheo, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(METHODS, "rheo", CONTROLS["token-residual"].method)
    status, out, _ = rheo("law", gate.DATA / "controls" / "token-residual.json", TIES, "--method", "rheo", "--json")
    assert status == 1
    assert json.loads(out.splitlines()[0])["lossless"] is False


def test_verify_gives_one_table_and_one_verdict(rheo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, out, err = rheo("verify", TIES, "--json", tmp_path / "run.json", "--failures", tmp_path / "failures")
    assert (status, out) == (0, "")
    assert "verdict: lossless" in err
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["verdict"] == "lossless"
    assert {check["check"] for check in record["checks"]} == {
        "reference", "torch float64", "torch float32", "parity float64", "parity float32",
    }  # fmt: skip
    assert len(record["controls"]) == len(CONTROLS)
    assert not (tmp_path / "failures").exists()


def test_verify_saves_a_failure_that_replays_it(rheo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(Path(TIES).read_text().replace('"373/240"', '"374/240"'))
    status, out, _ = rheo("verify", wrong, "--failures", tmp_path / "kept")
    assert status == 1
    assert "verdict: unexpected" in out  # the law is right: only what the case expects is wrong
    (saved,) = (tmp_path / "kept").iterdir()
    assert f"rheo verify {saved}" in out.replace("\n", "")
    assert rheo("verify", saved, "--failures", tmp_path / "again")[0] == 1


def test_verify_with_a_control_that_passes_has_status_4(rheo, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(CONTROLS, "wrong-law", Control("none", METHODS["rheo"]))
    status, out, _ = rheo("verify", TIES)
    assert status == 4
    assert "control passed" in out


def test_verify_goes_on_after_a_bad_file(rheo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, out, err = rheo("verify", tmp_path / "none.json", TIES)
    assert status == 2
    assert "none.json" in err
    assert "ties" in out


def test_what_was_not_reached_is_not_called_ok(rheo, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(gate, "CLASS_LIMIT", 2)
    status, out, _ = rheo("verify", TIES)
    assert status == 3
    row = next(line for line in out.splitlines() if line.strip().startswith("ties"))
    assert "- rheo" in row
    assert "more than 2 outcomes" in out


def test_an_interrupt_has_status_130(rheo, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate, "check_control", interrupted)
    status, out, err = rheo("verify", TIES)
    assert (status, out) == (130, "")
    assert "interrupted" in err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["law", "--help"], ["verify", "--help"], ["--version"]], ids=" ".join
)
def test_help_needs_no_torch(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['rheo', *{arguments}]; from rheo.cli.main import main\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.skipif(not SHARED_CASES, reason="no shared cases beside this checkout")
def test_shared_cases_give_what_they_expect(rheo, backend: str) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = rheo("law", *SHARED_CASES, "--backend", backend, "--json")
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 3 * len(SHARED_CASES)
    for line in lines:
        expected = load(line["case"]).expect[line["method"]]
        assert float(Fraction(line["accepted"])) == pytest.approx(float(Fraction(str(expected["accepted"]))), abs=1e-6)
        if backend == "reference":
            assert {key: line[key] for key in expected} == expected


def test_the_readme_shows_what_the_command_prints() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line.split() for line in text.splitlines() if line.rstrip().endswith("ok     ok     ok     ok      ok")]
    assert len(shown) >= 4
    for name, *accepted, _, _, _, _, _ in shown:
        (path,) = [path for path in gate.packaged_cases() if path.stem == name]
        case = load(path)
        for method, value in zip(PAPER, accepted, strict=True):
            assert f"{float(judge_reference(case, method).accepted):.4f}" == value, (name, method)


def test_the_example_in_the_documentation_is_a_case_that_gives_what_it_expects(rheo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    text = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
    (tmp_path / "example.json").write_text(text.split("```json")[1].split("```")[0])
    status, out, _ = rheo("verify", tmp_path / "example.json", "--failures", tmp_path / "failures")
    assert (status, "verdict: lossless" in out) == (0, True)


def test_a_parity_fault_makes_the_verdict_lossy(rheo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(gate, "toy_disagreements", lambda *_: ["torch there, reference here"])
    status, out, _ = rheo("verify", TIES, "--failures", tmp_path)
    assert status == 1
    assert "torch there, reference here" in out
    assert len(list(tmp_path.iterdir())) == 2 * len(PAPER)


def test_a_check_that_raises_has_failed(rheo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    def broken(*_: object) -> list[str]:
        raise RuntimeError("index out of bounds")

    monkeypatch.setattr(gate, "toy_disagreements", broken)
    status, out, _ = rheo("verify", TIES, "--failures", tmp_path)
    assert status == 1
    assert "index out of bounds" in out


def test_failures_of_equal_names_keep_files_of_their_own(rheo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for name in ("a", "b [red]"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.json").write_text(Path(TIES).read_text().replace('"373/240"', '"1"'))
    folder = tmp_path / "kept [bold]"
    status, out, _ = rheo("verify", tmp_path / "a" / "x.json", tmp_path / "b [red]" / "x.json", "--failures", folder)
    assert status == 1
    assert len(list(folder.iterdir())) == 2
    assert "kept [bold]" in out.replace("\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", TIES, "--json", "/no/x.json"],
        ["verify", TIES, "--json", "/dev/null"],
        ["bench", "sampler", "--json", "/no/x"],
    ],
)
def test_an_output_that_cannot_be_written_is_one_line_before_any_work(rheo, arguments: list[str]) -> None:  # type: ignore[no-untyped-def]
    status, out, err = rheo(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        ('"temperature": 1', '"temperature": "' + "9" * 5_000 + '"'),
        ('"p": {', '"p": {"' + "9" * 5_000 + '": [1, 1, 1, 1], '),
        ('"temperature": 1', '"temperature": 1' + "0" * 400),
        ('"vocab"', '"a\\nb": 1, "vocab"'),
    ],
    ids=["temperature", "prefix", "hot", "line break"],
)
def test_long_numbers_are_one_line(rheo, tmp_path: Path, change: tuple[str, str]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "case.json"
    path.write_text(Path(TIES).read_text().replace(*change))
    for command in (["law"], ["law", "--backend", "torch"], ["verify"]):
        status, _, err = rheo(*command, path)
        assert status == 2
        assert len(err.splitlines()) == 1 or command == ["verify"]


def test_an_expectation_at_an_irrational_temperature_is_compared_in_floats(rheo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "hot.json"
    expect = '"expect": {"topk": {"tv": "0", "accepted": "8601498770982469/10000000000000000", "classes": 1}}'
    path.write_text(Path(HOT).read_text().rstrip().removesuffix("}").rstrip() + f",\n {expect}\n}}\n")
    assert rheo("verify", path, "--failures", tmp_path / "f")[0] == 0


def test_a_closed_pipe_is_not_called_lossy() -> None:
    done = subprocess.run(
        f"{sys.executable} -m rheo.cli.main law {TIES} {TIES} | true; exit ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3)
    assert "Traceback" not in done.stderr
