"""The page of a run: whatever its JSON holds is on it, nothing else is needed, and nothing it holds can break it."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reports import figures, summary, trees
from reports.page import render
from tests.conftest import Rheo
from tests.runs import ALPHA, BETA, HEAD, TV, audit_run, bench_run, example, full_run, small_run
from tests.test_cli import ROOT, TOYS

SECTIONS = ("checks", "controls", "bad_input", "replay", "subjects", "mutants", "acceptance", "power", "example")


class Page(HTMLParser):
    """Every start tag with its attributes, and the text between tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def values(self, attribute: str) -> list[str]:
        return [value or "" for _, attrs in self.tags for name, value in attrs.items() if name == attribute]


@pytest.fixture(scope="module")
def full() -> Page:
    return Page(render(full_run(), "full.json"))


@pytest.fixture(scope="module", params=[full_run, bench_run], ids=["verify", "bench"])
def html(request: pytest.FixtureRequest) -> str:
    """The page of a whole run of each kind that has figures of its own."""
    return render(request.param(), "run.json")


# What is on the page


def test_a_run_of_the_main_job_becomes_a_page(rheo: Rheo, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    assert rheo("verify", TOYS / "ties.json", TOYS / "two-anchors.json", "--json", run)[0] == 0
    assert rheo("report", run) == (0, f"{tmp_path / 'run.html'}\n", "")
    page = Page((tmp_path / "run.html").read_text(encoding="utf-8"))
    assert ("span", {"id": "verdict"}) in page.tags
    said = page.words
    assert "Every output law computed on 2 cases is the target's" in said
    assert {"exact", "parity", "controls", "acceptance", "power", "example"} <= set(page.values("id"))
    for text in ("two-anchors", "1.5542", "true-score", "2115/7942", "Incomplete"):
        assert (text in said) == (text != "Incomplete"), text


def test_everything_in_the_run_is_on_the_page(full: Page) -> None:
    run = full_run()
    names = [subject["subject"] for subject in run["subjects"]]
    names += [trial["toy"] for subject in run["subjects"] for trial in subject["trials"]]
    names += [test["test"] for test in run["subjects"][0]["trials"][0]["tests"]]
    names += [mutant["mutant"] for mutant in run["mutants"]] + list(run["mutants"][0]["tiers"])
    names += [curve["test"] for curve in run["power"]] + run["bad_input"] + [run["replay"][0]["command"]]
    names += [run["subjects"][1]["guess"], "observed 0.1062, expected 0.1", "a cell ends at 0.252, not at 0.25"]
    said = full.words
    assert [name for name in names if name not in said] == []


def test_the_verdict_comes_first_and_states_its_error_rates(full: Page) -> None:
    said = full.words[: full.words.index("What went wrong")]
    assert "lossy" in said
    for rate in ("at most 1e-9", "total variation 0.005 or more is missed with at most 1e-6"):
        assert rate in said


@pytest.mark.parametrize(
    "verdict", ["lossless", "lossy", "inconclusive", "unexpected", "control_passed", "bad_input", "new"]
)
def test_every_verdict_has_its_sentence(verdict: str) -> None:
    claims = {"tv": TV, "alpha": ALPHA, "beta": BETA}
    subjects = [{"subject": "a", "verdict": verdict, "claims": claims}]
    sentence = summary.sentence({**HEAD, "verdict": verdict, "subjects": subjects})
    assert all(rate in sentence for rate in ("1e-9", "1e-6", "0.005"))
    assert not re.search("[a-z]", sentence[0])
    assert summary.sentence({**HEAD, "verdict": verdict}) != sentence


def test_an_incomplete_run_says_so_before_its_verdict() -> None:
    whole, cut = (Page(render({**HEAD, "complete": c}, "x")).words for c in (True, False))
    assert "Incomplete" not in whole
    assert cut.index("Incomplete run.") < cut.index("lossless so far")


def test_the_largest_rates_of_all_samplers_are_stated() -> None:
    claims = [{"tv": 0.01, "alpha": 1e-9, "beta": 1e-6}, {"tv": 0.001, "alpha": 1e-3, "beta": 1e-8}]
    run = {**HEAD, "subjects": [{"subject": "a", "verdict": "lossless", "claims": c} for c in claims]}
    assert summary.rates(run) == (0.01, 1e-3, 1e-6)


def test_an_audit_has_its_own_sentence_and_section() -> None:
    page = Page(render(audit_run(), "audit.json"))
    said = page.words
    assert "200 000 tokens shows no departure" in said
    assert "e-value now 0.4, largest 3.1; rejects at 1 000 000" in said
    assert "audit" in page.values("id")


def test_the_same_run_gives_the_same_page() -> None:
    assert render(small_run(), "x") == render(small_run(), "x")


# Nothing beside the run is needed


@pytest.mark.parametrize("left_out", [*SECTIONS, "all"])
def test_every_section_may_be_missing(left_out: str) -> None:
    run = small_run()
    for key in SECTIONS if left_out == "all" else (left_out,):
        del run[key]
    assert "Lossy" in render(run, "x").title()


def test_a_page_loads_nothing_and_runs_nothing(html: str) -> None:
    page = Page(html)
    assert "://" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "form", "base", "image", "video"}
    assert {href[:1] for href in page.values("href") if href != "data:,"} == {"#"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name == "src"]


def test_ids_are_unique_and_whatever_refers_to_one_finds_it(html: str) -> None:
    page = Page(html)
    ids = page.values("id")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    wanted = [href[1:] for name in ("href", "xlink:href") for href in page.values(name) if href.startswith("#")]
    wanted += page.values("aria-labelledby") + re.findall(r"url\(#([^)]*)\)", html)
    assert len(wanted) > 50
    assert set(wanted) <= set(ids)


def test_figures_and_tables_say_what_they_are(html: str) -> None:
    page = Page(html)
    drawings = [attrs for _, attrs in page.tags if attrs.get("role") == "img"]
    assert len(drawings) == sum(tag == "svg" and "aria-hidden" not in attrs for tag, attrs in page.tags)
    assert all(len(attrs["aria-label"] or "") > 30 for attrs in drawings)
    tags = Counter(tag for tag, _ in page.tags)
    assert tags["table"] == tags["caption"] == tags["thead"] >= 10
    assert tags["figure"] == tags["figcaption"] == len(drawings) >= 10
    assert {attrs.get("scope") for tag, attrs in page.tags if tag == "th"} == {"row", "col"}


def contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_against_what_lies_behind_it(theme: int) -> None:
    sheet = (ROOT / "reports" / "templates" / "style.css.j2").read_text()
    block = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    tones = ("ok", "bad", "warn")
    pairs = [(text, f"{tone}-bg") for tone in tones for text in (tone, "fg")]
    pairs += [(text, ground) for text in ("fg", "muted", *tones) for ground in ("bg", "card", "band")]
    pairs += [(mark, "bg") for mark in ("blue", "orange", "teal", "purple")]
    faint = {pair: contrast(*(colours[name] for name in pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in faint.items() if ratio < 4.5} == {}


# Nothing in a run can break the page


HOSTILE = {
    "script": "</style></svg><script>alert(1)</script>",
    "attribute": "\"'><img src=x onerror=alert(1)>",
    "markup": r"$\frac{$ --> <!-- ]]> {{ 7*7 }} {% raw %}",
    "stand-ins": '#010101 url(#x id="y',
    "odd characters": "\x00\x07\u202e\U0001f600漢字" + "x" * 3_000,
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_text_of_a_run_stays_text(hostile: str) -> None:
    """The elements around the drawings are the same, one for one, and no drawing has an element it should not."""
    names = ("case", "subject", "spec", "guess", "toy", "family", "test", "mutant", "symptom", "detail", "command")

    def attack(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            named = key in ("pit", "tiers", "methods", "root", "config")
            return {f"{k}{hostile}" if named else k: attack(item, k) for k, item in value.items()}
        if isinstance(value, list):
            return [attack(item, key) for item in value]
        return value + hostile if isinstance(value, str) and key in (*names, "bad_input") else value

    drawn = {"g", "use", "path", "text", "tspan", "defs", "clippath", "rect", "style"}
    clean, hit = Page(render(small_run(), "run.json")), Page(render(attack(small_run()), f"run.json{hostile}"))
    around = [[(tag, set(attrs)) for tag, attrs in page.tags if tag not in drawn] for page in (clean, hit)]
    assert around[0] == around[1]
    assert {tag for tag, _ in hit.tags} == {tag for tag, _ in clean.tags}
    assert {name for _, attrs in hit.tags for name in attrs} == {name for _, attrs in clean.tags for name in attrs}
    assert hit.words.count(hostile.split()[-1][-40:]) > 20


# The pieces


def test_a_right_sampler_leaves_the_band_of_a_histogram_as_seldom_as_it_says() -> None:
    generator = np.random.default_rng(3)
    left = sum(figures.outside(bins) for bins in generator.multinomial(30_000, [1 / 20] * 20, size=2_000).tolist())
    assert stats.binom.cdf(left, 2_000, 0.01) > 1e-6
    assert stats.binom.sf(left - 1, 2_000, 0.01) > 1e-6
    assert figures.outside([30, 10])
    assert not figures.outside([21, 19])


def test_a_tree_is_drawn_with_a_shape_a_kind_and_its_path_thick() -> None:
    drawn = Page(trees.draw(example()))
    classed = [(tag, (attrs.get("class") or "").removesuffix(" taken")) for tag, attrs in drawn.tags]
    assert Counter(entry for entry in classed if entry[1].startswith("node")) == {
        ("rect", "node anchor"): 4,
        ("circle", "node probe"): 3,
        ("polygon", "node filler"): 1,
        ("rect", "node drawn"): 1,
    }
    edges = Counter(attrs["class"] for tag, attrs in drawn.tags if tag == "path")
    assert edges == {"edge": 6, "edge taken": 2, "edge taken beside": 1}
    spots = [(attrs["x"], attrs["y"]) for tag, attrs in drawn.tags if tag == "text"]
    assert len(set(spots)) == len(spots)


def test_a_tree_may_be_a_long_chain_or_empty() -> None:
    keys = ("row", "parent", "token", "kind")
    chain = [dict(zip(keys, (i, i - 1, 0, "anchor"), strict=True)) for i in range(1, 1_001)]
    assert trees.draw({"nodes": chain, "emitted": [1]}).count("node anchor") == 1_000
    assert "drawn" in trees.draw({"nodes": [], "emitted": [1]})
