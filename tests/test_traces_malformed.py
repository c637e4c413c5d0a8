"""Whatever is malformed in a trace is one line that names it."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces import GOOD, LABELLED, jsonl, npz, run
from verify import trace as traces

# Malformed traces: a name, a suffix, and the content.


def without(key: str) -> dict[str, Any]:
    return {name: values for name, values in LABELLED.items() if name != key}


def with_value(key: str, value: float, row: int = 17) -> dict[str, Any]:
    values = LABELLED[key].astype(float)
    values[row] = value
    return {**LABELLED, key: values}


def header(text: str, version: tuple[int, int] = (1, 0), rest: dict[str, Any] = GOOD) -> bytes:
    """An npz whose p_token has this text for a header, and 40 numbers."""
    file = io.BytesIO(npz(rest))
    out = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(out, "w") as archive:
        length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
        archive.writestr(
            "p_token.npy", b"\x93NUMPY" + bytes(version) + length + text.encode() + GOOD["p_token"].tobytes()
        )
        archive.writestr("p_before.npy", source.read("p_before.npy"))
    return out.getvalue()


def wrong_arrays() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "no p_token", without("p_token")
    yield "no p_before", without("p_before")
    yield "no rows", {name: values[:0] for name, values in LABELLED.items()}
    for key in ("p_before", "q_token", "request", "position"):
        yield f"short {key}", {**LABELLED, key: LABELLED[key][:-1]}
    for key in ("p_token", "p_before", "q_token"):
        for value in (np.nan, np.inf, -np.inf, -1e-9, 1.5, 1e308):
            yield f"{key} {value}", with_value(key, value)
        for kind in ("f2", "i8", "?", "c16", "U8", "O", "V8", "M8[s]"):
            yield f"{key} of {kind}", {**LABELLED, key: np.zeros(40).astype(kind)}
    yield "above 1", {**LABELLED, "p_before": 1 - LABELLED["p_token"] + 2 * traces.TOLERANCE}
    yield "huge", {**LABELLED, "p_token": np.full(40, 1e308), "p_before": np.full(40, 1e308)}
    yield "request of floats", {**LABELLED, "request": np.zeros(40)}
    yield "position of objects", {**LABELLED, "position": np.array([None] * 40)}
    yield "two-dimensional", {name: values.reshape(8, 5) for name, values in LABELLED.items()}
    yield "scalars", {name: values[0] for name, values in GOOD.items()}
    yield "an order of numbers", {**GOOD, "order": 3}
    yield "several orders", {**GOOD, "order": ["p", "q"]}


def wrong_lines() -> Iterator[tuple[str, bytes]]:
    good = jsonl(LABELLED).splitlines()
    faults = {
        "empty array": b"[]", "number": b"3", "null": b"null", "string": b'"p_token"', "cut": good[17][:-3],
        "cut at a number": good[17][:20], "csv": b"0.5,0.2", "no p_token": b'{"p_before": 0.5}',
        "no q_token": b'{"p_token": 0.5, "p_before": 0.5, "request": 0, "position": 0}',
        "two objects": good[17] + b"," + good[17], "two objects, no comma": good[17] + good[17],
        "single quotes": good[17].replace(b'"', b"'"), "not utf-8": good[17] + b"\xff", "zero byte": b"\x00",
        "deep": b"[" * 50_000, "deep object": b'{"a":' * 20_000, "long": b" " * 3_000_000 + b"x",
        "open string": b'{"p_token', "comma": good[17] + b",", "control": b'{"p_token\x01": 1}',
    }  # fmt: skip
    for name, fault in faults.items():
        yield name, b"\n".join([*good[:17], fault, *good[18:]])
    for value in ("true", "null", '"0.5"', "[0.5]", "{}", "NaN", "Infinity", "-Infinity", "1e999", "-0.1", "1.5"):
        for key in ("p_token", "p_before", "q_token"):
            row = json.dumps({**json.loads(good[17]), key: "?"}).replace('"?"', value).encode()
            yield f"{key} {value}", b"\n".join([*good[:17], row, *good[18:]])
    for value in ("true", "0.5", '"a"', "1" + "0" * 30, "9" * 5_000):
        row = json.dumps({**json.loads(good[17]), "request": "?"}).replace('"?"', value).encode()
        yield f"request {value[:9]}", b"\n".join([*good[:17], row, *good[18:]])
    yield "huge", b"\n".join([*good[:17], b'{"p_token": 1' + b"0" * 400 + b', "p_before": 0}', *good[18:]])


def malformed() -> Iterator[tuple[str, str, bytes]]:
    rng = np.random.default_rng(0)
    for suffix in (".npz", ".jsonl", ".parquet"):
        yield "empty", suffix, b""
        yield "noise", suffix, rng.bytes(2_000)
        yield "text", suffix, b"p_token,p_before\n0.5,0.5\n"
    for name, columns in wrong_arrays():
        yield name, ".npz", npz(columns)
    for deflated in (False, True):
        whole = npz(LABELLED, deflated)
        for cut in rng.integers(1, len(whole), 20):
            yield f"cut at {cut}", ".npz", whole[:cut]
    shape = "{'descr': '<f8', 'fortran_order': False, 'shape': %s}\n"
    for claim in ("(41,)", "(39,)", "(-40,)", "(10**30,)", "(9" + "0" * 30 + ",)", "40", "None", "(40, 1)", "()"):
        yield f"shape {claim}", ".npz", header(shape % claim)
    for descr in ("<f9", "O", "x", "<f8,<f8", "", "8" * 3_000):
        yield f"descr {descr[:9]}", ".npz", header(shape.replace("<f8", descr) % "(40,)")
    for text in (
        "",
        "{",
        "[]",
        "{'descr': '<f8'}",
        "(" * 3_000,
        "x" * 70_000,
        "\x00",
        "1L",
        "{'descr': 1 if 1 else 2}",
    ):
        yield f"header {text[:9]}", ".npz", header(text[:65_000])
    short = {name: values[:39] for name, values in GOOD.items()}
    yield "a row more than its shape", ".npz", header(shape % "(39,)", rest=short)
    yield "version 3", ".npz", header(shape % "(40,)", version=(3, 0))
    yield "version 9", ".npz", header(shape % "(40,)", version=(9, 9))
    yield "no magic", ".npz", npz(GOOD).replace(b"\x93NUMPY", b"\x93NUMPX")
    yield "an npy", ".npz", npz(GOOD)[50:]
    for name, data in wrong_lines():
        yield name, ".jsonl", data
    whole = jsonl(GOOD)
    yield "utf-16", ".jsonl", whole.decode().encode("utf-16")
    yield "byte order mark", ".jsonl", b"\xef\xbb\xbf" + whole
    yield "one array", ".jsonl", json.dumps(json.loads(b"[" + whole.strip().replace(b"\n", b",") + b"]")).encode()
    yield "blank lines", ".jsonl", b"\n \n\t\n"
    yield "an order alone", ".jsonl", b'{"order": "p"}\n'
    yield "nothing but newlines", ".jsonl", b"\n" * 100_000
    for cut in rng.integers(1, len(whole), 20):
        if whole[:cut].rpartition(b"\n")[2] and whole[cut : cut + 1] != b"\n":
            yield f"cut at {cut}", ".jsonl", whole[:cut]


MALFORMED = list(malformed())


def test_there_are_many_malformed_traces() -> None:
    assert len(MALFORMED) >= 200


def complaint(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    """The one line about a trace that cannot be audited."""
    status, out, err = run(capsys, path)
    assert (status, out) == (2, ""), err
    assert len(err.splitlines()) == 1
    assert err.startswith(f"rheo: {path}: ")
    assert len(err) < len(str(path)) + 400
    return err.removeprefix(f"rheo: {path}: ").strip()


@pytest.mark.parametrize("suffix", [".npz", ".jsonl", ".parquet"])
def test_a_malformed_trace_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"x{suffix}"
    for name, kind, data in MALFORMED:
        if kind == suffix:
            path.write_bytes(data)
            try:
                complaint(capsys, path)
            except AssertionError as error:
                raise AssertionError(name) from error


@pytest.mark.parametrize("deflated", [False, True], ids=["stored", "deflated"])
def test_a_flipped_bit_of_an_npz_is_found_or_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, deflated: bool
) -> None:
    path, rng, found = tmp_path / "x.npz", np.random.default_rng(1), 0
    whole = npz(LABELLED, deflated)
    path.write_bytes(whole)
    clean = run(capsys, path)[1].rpartition(",")[0]  # what follows are the seconds
    for position, bit in zip(rng.integers(0, len(whole), 150), rng.integers(0, 8, 150), strict=True):
        changed = bytearray(whole)
        changed[position] ^= 1 << int(bit)
        path.write_bytes(changed)
        status, out, err = run(capsys, path)
        if status == 2:
            found += 1
            assert (out, len(err.splitlines())) == ("", 1)
        else:
            assert out.rpartition(",")[0] == clean, (position, bit)
    assert found >= 70


@pytest.mark.parametrize(
    ("suffix", "data", "words"),
    [
        (".npz", npz(with_value("p_token", np.nan)), r"row 17, request 2, position 1: p_token nan"),
        (".npz", npz(with_value("p_before", 1.0)), r"row 17, .*above 1"),
        (".npz", npz({**LABELLED, "p_token": LABELLED["p_token"].astype("f2")}), r"p_token: dtype float16"),
        (".npz", npz({**LABELLED, "p_before": LABELLED["p_before"][1:]}), r"p_before: 39 rows, but p_token has 40"),
        (".npz", npz(GOOD)[:-200], r"no readable npz: .*zip"),
        (".npz", npz(without("p_token")), r"no p_token$"),
        (".jsonl", jsonl(with_value("p_token", -0.5)), r"line 18, .*p_token -0\.5"),
        (".jsonl", b"\n" + jsonl(GOOD)[:-5], r"line 41: Expecting"),
        (".jsonl", b'{"order": "p"}\n' + jsonl(GOOD) + b"{}\n", r"line 42: no p_token"),
        (".jsonl", jsonl(GOOD) + b'{"p_token": "a", "p_before": 0}\n', r"line 41: p_token is not a number"),
        (".jsonl", b" " * 3_000_000 + jsonl(GOOD), r"line 1: longer than"),
        (".csv", b"p_token,p_before\n", r"the suffix is none of \.npz, \.jsonl, \.parquet"),
    ],
)  # fmt: skip
def test_a_complaint_names_the_row_or_line_and_the_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, data: bytes, words: str
) -> None:
    (tmp_path / f"x{suffix}").write_bytes(data)
    assert re.search(words, complaint(capsys, tmp_path / f"x{suffix}"))


def test_malformed_parquet_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    listed = {name: values.tolist() for name, values in LABELLED.items()}
    for name, columns, words in (
        ("no p_before", without("p_before"), "no p_before"),
        ("null", {**listed, "p_token": [*listed["p_token"][:17], None, *listed["p_token"][18:]]}, "row 17: no p_token"),
        ("text", {**listed, "p_token": ["a"] * 40}, "p_token: type string"),
        ("lists", {**listed, "p_token": [[0.5]] * 40}, "p_token: type list"),
        ("integers", {**listed, "p_before": [0] * 40}, "p_before: type int64"),
        ("NaN", with_value("p_token", np.nan), "row 17"),
        ("no rows", {key: values[:0] for key, values in LABELLED.items()}, "no rows"),
    ):
        parquet.write_table(pa.table(columns), path)
        assert words in complaint(capsys, path), name
    parquet.write_table(pa.table(LABELLED), path)
    whole = path.read_bytes()
    for cut in np.random.default_rng(2).integers(1, len(whole), 10):
        path.write_bytes(whole[:cut])
        complaint(capsys, path)


def test_what_is_no_regular_file_is_not_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    for name, words in (("none.npz", "No such file"), ("folder.npz", "not a regular"), ("pipe.npz", "not a regular")):
        assert words in complaint(capsys, tmp_path / name)
