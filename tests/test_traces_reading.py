"""Every format of a trace gives the same rows."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces import GOOD, LABELLED, everything, jsonl, npz
from verify import trace as traces
from verify.trace import TraceError, read


@pytest.mark.parametrize("columns", [GOOD, LABELLED], ids=["plain", "labelled"])
def test_every_format_gives_the_same_rows_whatever_the_size_of_the_steps(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
) -> None:
    expected = {name: values.tolist() for name, values in columns.items()}
    for rows_, bytes_ in ((1 << 16, 1 << 20), (7, 200)):
        monkeypatch.setattr(traces, "ROWS", rows_)
        monkeypatch.setattr(traces, "_BYTES", bytes_)
        assert everything(npz(columns), "x.npz") == ("", expected)
        assert everything(npz({**columns, "order": "p/q"}, deflated=True), "x.NPZ") == ("p/q", expected)
        assert everything(jsonl(columns), "x.jsonl") == ("", expected)
        assert everything(b'{"order": "q"}\n' + jsonl(columns).rstrip(), "x.jsonl") == ("q", expected)
        loose = b"\n\r\n" + jsonl({**columns, "extra": ["a"] * 40}).replace(b"\n", b"\r\n\n")
        assert everything(loose, "x.jsonl") == ("", expected)


def test_parquet_gives_the_same_rows(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(LABELLED).replace_schema_metadata({"order": "p/q"})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=7)
    data = (tmp_path / "x.parquet").read_bytes()
    assert everything(data, "x.parquet") == ("p/q", {name: values.tolist() for name, values in LABELLED.items()})


def test_parquet_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TraceError, match=r"^x\.parquet: parquet needs pyarrow: pip install"):
        read(io.BytesIO(b""), "x.parquet", 0)


def test_float32_and_foreign_byte_orders_are_read() -> None:
    for kind in ("<f4", ">f4", ">f8"):
        columns = {name: values.astype(kind) for name, values in GOOD.items()}
        assert everything(npz(columns), "x.npz")[1] == {name: values.tolist() for name, values in columns.items()}
    over = {"p_token": np.array([0.5], dtype="f4"), "p_before": np.array([0.5 + traces.TOLERANCE / 2], dtype="f4")}
    assert len(everything(npz(over), "x.npz")[1]["p_token"]) == 1
