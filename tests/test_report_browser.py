"""The page in a real browser: nothing fails, nothing is fetched, it fits a phone and prints."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.page import render
from tests.runs import bench_run, full_run

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync",
)  # fmt: skip
PHONE, DESKTOP = 360, 1_280
# By kind: the headline, and how many tables (those that are not folded) and figures are seen.
EXPECTED = {"verify": ("lossy", 7, 10), "bench": ("rheo: tau 2.77, 1.38 times as fast", 8, 22)}
# Whatever sticks out of its figure by more than a pixel: a label cut off at the edge.
CUT_OFF = """
return [...document.querySelectorAll('.drawing svg')].flatMap(svg => {
    const edge = svg.closest('figure').getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(text => {
        const box = text.getBoundingClientRect();
        return box.left < edge.left - 1 || box.right > edge.right + 1;
    }).map(text => text.textContent);
});
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if os.environ.get("RHEO_NO_BROWSER") == "1":
        pytest.skip("RHEO_NO_BROWSER=1: no page is looked at in a browser")
    browser, service = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if browser is None or service is None:
        pytest.fail(
            f"no {' or '.join(BROWSERS)} with chromedriver on this machine: apt-get install chromium chromium-driver, "
            "or set RHEO_NO_BROWSER=1 to leave these tests out",
            pytrace=False,
        )
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(service)) as driver:
        yield driver


def long_names() -> Any:
    """A benchmark whose methods have the longest names there are."""
    text = json.dumps(bench_run()).replace('"topk"', '"calibrated-transport"').replace('"rrsw"', '"rheo-transport"')
    return json.loads(text)


@pytest.fixture(scope="module", params=[full_run, long_names], ids=["verify", "bench"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture(scope="module")
def page(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / f"{run['kind']}.html"
    path.write_text(render(run, "run.json"), encoding="utf-8")
    return path


def show(driver: Any, page: Path, width: int, scheme: str = "light") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.as_uri())


def test_nothing_fails_and_nothing_is_fetched(driver: Any, page: Path) -> None:
    driver.get_log("performance")
    show(driver, page, DESKTOP)
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert page.as_uri() in requests
    assert [url for url in requests if not url.startswith((page.as_uri(), "data:"))] == []
    assert driver.execute_script("return [...document.images].filter(i => !i.naturalWidth).length") == 0


def test_errors_and_requests_would_be_seen(driver: Any, tmp_path: Path) -> None:
    """The control: a page with a script error, a missing image and a style sheet from elsewhere."""
    bad = tmp_path / "bad.html"
    bad.write_text("<script>undefined.x</script><img src=none.png><link rel=stylesheet href=http://127.0.0.1:9/x.css>")
    driver.get_log("performance")
    show(driver, bad, DESKTOP)
    seen = " ".join(entry["message"] for entry in (*driver.get_log("browser"), *driver.get_log("performance")))
    assert all(text in seen for text in ("TypeError", "none.png", "http://127.0.0.1:9/x.css"))
    assert driver.execute_script("return [...document.images].filter(i => !i.naturalWidth).length") == 1


def test_tables_and_figures_are_there_and_the_verdict_stands_first(driver: Any, page: Path, run: Any) -> None:
    verdict, tables, drawings = EXPECTED[run["kind"]]
    show(driver, page, DESKTOP)
    assert driver.execute_script("return document.getElementById('verdict').textContent") == verdict
    visible = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).length"
    assert driver.execute_script(visible, "table") == tables
    assert driver.execute_script(visible, "figure svg:not([aria-hidden])") == drawings
    first = "return document.querySelector('.verdict').getBoundingClientRect().bottom"
    assert driver.execute_script(first) < 400
    rows = "return document.querySelectorAll('#mutants tbody tr').length"
    assert driver.execute_script(rows) == len(run.get("mutants", []))


@pytest.mark.parametrize("width", [PHONE, 768, DESKTOP])
def test_the_page_fits_and_no_label_is_cut_off(driver: Any, page: Path, width: int) -> None:
    show(driver, page, width)
    driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script(CUT_OFF) == []


def test_what_has_no_room_scrolls_by_itself(driver: Any, page: Path) -> None:
    inside = "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    counts = []
    for width in (PHONE, DESKTOP):
        show(driver, page, width)
        driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        counts.append(driver.execute_script(inside))
    assert counts[0] > 6 and counts[0] > counts[1], counts


def test_letters_on_a_phone_are_large_enough(driver: Any, page: Path) -> None:
    show(driver, page, PHONE)
    height = """return Math.min(...[...document.querySelectorAll('.drawing svg text')].map(text => {
        const scale = text.getScreenCTM();
        return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
    }))"""
    assert driver.execute_script(height) > 8.5


def test_dark_mode_is_followed(driver: Any, page: Path) -> None:
    seen = []
    for scheme in ("light", "dark"):
        show(driver, page, DESKTOP, scheme)
        look = """return [getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.querySelector('.drawing svg text')).fill]"""
        seen.append(driver.execute_script(look))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_the_page_prints(driver: Any, page: Path) -> None:
    show(driver, page, DESKTOP, "dark")
    pdf = base64.b64decode(driver.print_page())
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") <= 20
