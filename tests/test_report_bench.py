"""The page of a benchmark of full models: its figures are on it, whatever is missing, and nothing can break it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports import schema
from reports.bench import summary
from reports.bench.schema import BENCH
from reports.page import render
from rheo.methods import METHODS
from tests.conftest import Rheo
from tests.runs import Json, bench_run
from tests.test_cli import ROOT
from tests.test_report import HOSTILE, Page
from tests.test_report_schema import damaged, generated, unknown
from tests.tiny_models import CONFIG, PROMPTS, VOCAB, skipping, tiny_target
from verify.benchmark.machine import machine, versions
from verify.benchmark.plan import ABLATIONS, Plan, Question
from verify.benchmark.run import document, settings
from verify.benchmark.run import run as carry_out
from verify.benchmark.texts import Models


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(bench_run(), "bench.json"))


def small() -> Json:
    """One ablation and few points: quick to draw."""
    run = bench_run()
    run["summary"]["ablations"] = {"support": run["summary"]["ablations"]["support"][:2]}
    run["summary"]["grid"] = run["summary"]["grid"][-3:]
    run["summary"]["depth_one"]["points"] = run["summary"]["depth_one"]["points"][:2]
    return run


# What is on the page


def test_the_report_of_a_benchmark_is_a_page_beside_it(rheo: Rheo, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(small()))
    assert rheo("report", path) == (0, f"{tmp_path / 'bench.html'}\n", "")
    page = Page((tmp_path / "bench.html").read_text(encoding="utf-8"))
    assert "rheo: tau 2.77, 1.38 times as fast" in page.words
    sections = {"table", "expected", "grid", "depths", "bound", "time", "ablations", "ablation-support", "setting"}
    assert sections <= set(page.values("id"))
    assert "ablation-anchors" not in page.values("id")


def test_every_kind_of_figure_is_on_the_page(page: Page) -> None:
    wanted = (
        "2.77 ± 0.06",  # tau with its spread
        "1.280 to 1.480",  # the interval of a speed-up
        "+0.180 (+0.140 to +0.220)",  # a paired difference
        "0.717",  # expected acceptance at depth 1
        "0.0054",  # rheo's mean distance from its bound
        "rheo 0.726 of 0.731",
        "Expected tau at T = 0.3 less that of rheo, by drafted nodes 15, 31, 59: topk -0.18, -0.18, -0.18; rrsw",
        "T = 0.6, 31",
        "topk 3.1%, rrsw 3.7%, rheo 3.6%",  # sampling's share of a round
        "1.40 GB",
        "coverage of p 0.93, ",
        "+0.050 (+0.010 to +0.100)",  # an ablation's difference to the run's own value
        "128 (the run's)",
        "1.3e-6 on average and 6e-6 at most",  # the numeric floor
        "made up",  # the processor
        "5.24.0",  # transformers
        "max new tokens 48",
    )
    said = " ".join([page.words, *page.values("aria-label")])
    assert [text for text in wanted if text not in said] == []


def test_the_best_tau_of_a_suite_stands_out() -> None:
    run = small()
    run["summary"]["grid"] = []
    for row in run["summary"]["table"]:
        row["tau"] = {"topk": 9.5, "rheo": 2.0}.get(row["method"], 1.0)
    strong = re.findall(r'<td class="number strong ?">\s*([^<]*)</td>', render(run, "x"))
    assert strong == ["9.50 ± 0.06"] * 3


def test_a_method_has_one_colour_in_all_figures_of_the_page() -> None:
    html = render(small(), "x")
    drawings = re.findall(r'aria-label="([^"]*)"[^>]*>(<svg.*?</svg>)', html, re.DOTALL)
    less = [svg for label, svg in drawings if label.startswith("Expected tau less that of rheo")]
    assert len(less) == 1
    assert "--orange" in less[0]  # rrsw's colour, though it is the only method drawn
    assert "--blue" not in less[0]


def test_differences_are_drawn_once_and_not_again_with_their_sign_turned() -> None:
    labels = Page(render(small(), "x")).values("aria-label")
    says = "Expected tau less that of "
    drawn = [label.removeprefix(says).split() for label in labels if label.startswith(says)]
    assert [(words[0], words[-4:]) for words in drawn] == [
        ("topk,", ["rrsw", "0.14,", "rheo", "0.18"]),
        ("rheo,", ["intervals;", "average:", "rrsw", "-0.04"]),
    ]


# What may be missing


@pytest.mark.parametrize("filled", [False, True], ids=["required keys", "nulls"])
def test_whatever_the_schema_lets_be_missing_or_null_is_not_needed(filled: bool, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(generated(BENCH, filled)))
    assert "text" in render(schema.load(path), "x")


def test_keys_of_other_kinds_mean_nothing_in_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**small(), "example": {"nodes": [{}]}, "verdict": 3, "checks": "x"}))
    assert schema.load(path)["verdict"] == 3


def test_a_benchmark_stopped_before_its_first_text_has_a_page() -> None:
    run = {**bench_run(), "complete": False}
    sections = ("table", "expected", "acceptance", "time", "grid", "shapes")
    run["summary"] = {**{key: [] for key in sections}, "floor": None, "depth_one": None, "ablations": {}}
    said = Page(render(run, "x")).words
    assert "nothing measured so far" in said
    assert said.index("Incomplete run.") < said.index("nothing measured so far")


def test_the_headline_is_of_rheo_else_of_the_last_method_that_drafts() -> None:
    run = small()
    run["summary"]["table"].reverse()
    assert summary.headline(run).text.startswith("rheo: tau 2.77")
    for methods, first in ((("ar", "topk", "rrsw"), "rrsw: tau 2.73"), (("ar",), "nothing measured")):
        kept = [row for row in bench_run()["summary"]["table"] if row["method"] in methods]
        run["summary"]["table"] = kept
        assert summary.headline(run).text.startswith(first)
        assert Page(render(run, "x")).words


def test_shapes_that_were_measured_are_on_the_page_and_the_best_stands_out() -> None:
    run = small()
    run["summary"]["grid"], run["summary"]["table"] = [], []
    choice = {"method": "spectr", "budget": 31, "slots": 3, "tried": [1, 3, 10], "tau": [1.71, 2.345, 2.1]}
    about = {"temperature": 0.6, "contexts": 12}
    run["summary"]["shapes"] = [{**about, "acceptance": [0.5, 0.125], "choices": [choice]}]
    html = render(run, "x")
    said = Page(html).words
    assert all(text in said for text in ("by 12 round starts of other texts", "tau at K = 3", "1.710", "0.1250"))
    assert re.findall(r'<td class="number strong ?">\s*([^<]*)</td>', html) == ["2.345"]


def test_one_seed_and_one_prompt_give_no_interval_and_no_spread() -> None:
    run = small()
    for row in run["summary"]["table"]:
        row.update(spread=None, interval=None, speedup=None, speedup_interval=None)
    for row in run["summary"]["expected"]:
        row.update(interval=None, differences=dict.fromkeys(row["differences"]))
    page = Page(render(run, "x"))
    assert "±" not in page.words.replace("tau ± its standard deviation", "")
    assert not [label for label in page.values("aria-label") if label.startswith(("Speed-up", "Expected tau less"))]


# What is refused


def broken(change: Callable[[Json], object]) -> str:
    run = bench_run()
    change(run)
    return json.dumps(run)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (broken(lambda run: run.update(schema=1)), "$.schema: version 1"),
        (broken(lambda run: run.update(kind="bench sampler", verdict="done")), "$.kind: 'bench sampler'"),
        (broken(lambda run: run.pop("machine")), "$: 'machine'"),
        (broken(lambda run: run["settings"].update(seeds="2")), "$.settings.seeds: '2'"),
        (broken(lambda run: run["summary"].pop("depth_one")), "$.summary: 'depth_one'"),
        (broken(lambda run: run["summary"]["table"][3].update(tau=None)), "$.summary.table[3].tau: "),
        (broken(lambda run: run["summary"]["table"][3].update(tau=1e200)), "$.summary.table[3].tau: "),
        (broken(lambda run: run["summary"]["expected"][1]["interval"].pop()), "$.summary.expected[1].interval: "),
        (broken(lambda run: run["summary"]["time"][1]["shares"].pop("rest")), "$.summary.time[1].shares: 'rest'"),
        (
            broken(lambda run: run["summary"]["ablations"]["budget"][0]["methods"]["rheo"].update(tau="x")),
            "$.summary.ablations.budget[0].methods.rheo.tau: 'x'",
        ),
    ],
    ids=lambda value: value[:40] if value.startswith("$") else "",
)
def test_anything_but_a_benchmark_is_one_line_that_names_the_place(
    rheo: Rheo, tmp_path: Path, text: str, place: str
) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    status, out, err = rheo("report", path)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"rheo: {path}: ")
    assert place in err
    assert not (tmp_path / "bench.html").exists()


def test_a_benchmark_damaged_anywhere_is_drawn_or_refused_in_one_line(tmp_path: Path) -> None:
    junk: list[Any] = [None, "", "x", -1, 0, 1e11, 0.5, [], {}, True, {"a": 1}, [0], 10**200]
    drawn, refused = damaged(small(), junk, 150, tmp_path / "bench.json")
    assert drawn > 12
    assert len(refused) > 50
    assert {len(line.splitlines()) for line in refused} == {1}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_text_of_a_benchmark_stays_text(hostile: str) -> None:
    def attack(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            named = key in ("methods", "differences", "versions")
            return {f"{k}{hostile}" if named else k: attack(item, k) for k, item in value.items()}
        if isinstance(value, list):
            return [attack(item, key) for item in value]
        return value + hostile if isinstance(value, str) and key != "kind" else value

    def around(page: Page) -> list[tuple[str, set[str]]]:
        drawn = {"g", "use", "path", "text", "tspan", "defs", "clippath", "rect", "style"}
        return [(tag, set(attrs)) for tag, attrs in page.tags if tag not in drawn]

    # Suites and methods lose the names that the page knows, `ar` and `average` among them: so they do in the control.
    clean, hit = (Page(render(change(small()), "x")) for change in (renamed, attack))
    assert around(clean) == around(hit)
    assert {tag for tag, _ in hit.tags} == {tag for tag, _ in clean.tags}
    assert hit.words.count(hostile.split()[-1][-40:]) > 20


def renamed(run: Json) -> Json:
    return json.loads(re.sub(r'"(ar|average|all|rheo|topk)"', r'"\1."', json.dumps(run)))  # type: ignore[no-any-return]


# Schema and documentation


def test_the_example_has_no_key_that_the_schema_does_not_name() -> None:
    assert set(unknown(bench_run(), BENCH)) == set()


@pytest.mark.model
@pytest.mark.parametrize("few", [False, True], ids=["all", "one prompt and seed"])
def test_what_the_benchmark_of_real_models_writes_is_in_the_schema_and_drawn(few: bool, tmp_path: Path) -> None:
    target = tiny_target()
    questions = [Question(f"q{i}", tuple(prompt)) for i, prompt in enumerate(PROMPTS[: 1 if few else 2])]
    methods = ("rheo",) if few else ("ar", *METHODS)
    sizes: dict[str, Any] = {"max_new_tokens": 6, "seeds": 1 if few else 2, "contexts": 1, "vocab": VOCAB}
    config = replace(CONFIG, temperature=1.0)
    plan = Plan({"a": tuple(questions)}, methods, config, ablations=() if few else ABLATIONS, **sizes)
    names = {"target": "tiny", "draft": "skip:1", "dtype": "float32", "device": "cpu", "limit": 2}
    head = {"settings": settings(plan, names), "versions": versions(), "machine": machine(target.device)}
    records = {unit.key: record for unit, record in carry_out(Models(target, skipping(target)), plan, {})}
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(document(plan, head, records, 1.0, True)))
    run = schema.load(path)
    assert set(unknown(run, BENCH)) == set()
    assert {
        "setting",
        "table",
        "expected",
        "bound",
        *(["grid"] if plan.ablations else []),
        *(f"ablation-{key}" for key in plan.ablations),
    } <= set(Page(render(run, "x")).values("id"))


def test_the_documentation_of_the_benchmark_names_every_key_of_its_schema() -> None:
    def keys(spec: Any) -> Iterator[str]:
        if isinstance(spec, dict):
            yield from spec.get("properties", ())
            for value in spec.values():
                yield from keys(value)

    text = (ROOT / "docs" / "bench-schema.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| **")]
    heads = {name for row in rows for name in re.findall(r"\*\*`(\w+)`\*\*", row)}
    assert heads <= set(keys(BENCH))
    assert set(keys(BENCH)) - set(re.findall(r"`(\w+)`", text)) == set()
