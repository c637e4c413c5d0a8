"""What an engine writes is what is read, and whatever goes wrong leaves whole rows."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.traces import contexts, everything
from verify.orders import ORDERS, mass_before
from verify.trace import COLUMNS
from verify.trace_writer import TraceWriter


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_written_trace_has_the_probabilities_of_its_tokens(tmp_path: Path, suffix: str, order: str) -> None:
    rng = np.random.default_rng(3)
    p, q, tokens = contexts(rng, 50)
    with TraceWriter(tmp_path / f"x{suffix}", order) as trace:
        for part in (slice(0, 20), slice(20, 20), slice(20, 50)):
            labels = {"requests": np.arange(50)[part], "positions": np.arange(50)[part] * 2}
            trace.add(np.log(p[part]) + 3, tokens[part], np.log(q[part]), **labels)
    data = (tmp_path / f"x{suffix}").read_bytes()
    stated, columns = everything(data, f"x{suffix}")
    assert (stated, list(columns)) == (order, list(COLUMNS))
    assert columns["request"] == list(range(50))
    assert columns["position"] == list(range(0, 100, 2))
    own = np.take_along_axis(p, tokens[:, None], 1)[:, 0]
    assert np.allclose(columns["p_token"], own, rtol=1e-12)
    assert np.allclose(columns["q_token"], np.take_along_axis(q, tokens[:, None], 1)[:, 0], rtol=1e-12)
    assert np.allclose(columns["p_before"], mass_before(ORDERS[order](p, q), p, tokens), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_tensors_are_written_as_arrays_of_the_same_values_are(tmp_path: Path, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(30, 9, generator=generator).to(dtype).requires_grad_()
    tokens = torch.randint(9, (30,), generator=generator)
    with TraceWriter(tmp_path / "tensor.npz") as trace:
        trace.add(logits, tokens, positions=torch.arange(30))
    with TraceWriter(tmp_path / "array.npz") as trace:
        trace.add(logits.detach().double().numpy(), tokens.numpy().astype(np.int32), positions=np.arange(30))
    tensor, array = (everything((tmp_path / f"{x}.npz").read_bytes(), "x.npz") for x in ("tensor", "array"))
    assert tensor == array


def test_many_rows_and_a_large_vocabulary_are_done_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p, q, tokens = contexts(np.random.default_rng(5), 50)
    for name, entries in (("whole", 1 << 22), ("parts", 100)):
        monkeypatch.setattr("verify.trace_writer._ENTRIES", entries)
        with TraceWriter(tmp_path / f"{name}.jsonl", "p/q") as trace:
            trace.add(np.log(p), tokens, np.log(q))
    assert (tmp_path / "whole.jsonl").read_bytes() == (tmp_path / "parts.jsonl").read_bytes()


def test_what_a_processor_excludes_has_probability_zero(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "x.jsonl") as trace:
        trace.add(np.array([[0.0, -np.inf, 0.0]] * 2), np.array([1, 2]))
    _, columns = everything((tmp_path / "x.jsonl").read_bytes(), "x.jsonl")
    assert columns == {"p_token": [0.0, 0.5], "p_before": [1.0, 0.5]}


L, T = np.zeros((3, 4)), np.zeros(3, dtype=int)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((L[0], T, L), r"logits: shape \(4,\)"),
        ((L[:, :0], T, L), r"logits: shape \(3, 0\)"),
        ((np.where(np.eye(3, 4) > 0, np.nan, L), T, L), "logits: row 0 has a NaN"),
        ((np.where(np.arange(3)[:, None] == 2, -np.inf, L), T, L), "logits: row 2 .* nothing above -inf"),
        ((np.where(np.arange(4) == 1, np.inf, L), T, L), "logits: row 0 has a NaN or inf"),
        ((L, T[:2], L), "tokens: .*integers"),
        ((L, T.astype(float), L), "tokens: float64"),
        ((L, T + 4, L), r"tokens: an id outside \[0, 4\)"),
        ((L, T - 1, L), r"tokens: an id outside"),
        ((L, T, L[:, :3]), "q_logits: shape"),
        ((L, T, None), "q_logits: needed to rank"),
        ((L, T, L + np.nan), "q_logits: row 0"),
        ((L, T, L, T[:1]), "requests"),
        ((L, T, L, T, L[:, 0]), "positions: float64"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_a_wrong_call_is_named_and_leaves_the_trace_as_it_was(
    tmp_path: Path, suffix: str, arguments: tuple[Any, ...], words: str
) -> None:
    path = tmp_path / f"x{suffix}"
    with TraceWriter(path, "p/q") as trace:
        trace.add(L, T, L)
        with pytest.raises(ValueError, match=words):
            trace.add(*arguments)
        trace.add(L, T + 1, L)
    _, columns = everything(path.read_bytes(), path.name)
    assert columns["p_before"] == [0.0] * 3 + [0.25] * 3


def test_columns_cannot_come_and_go(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "x.npz") as trace:
        trace.add(L, T)
        with pytest.raises(ValueError, match="columns p_token, p_before, request, but p_token, p_before"):
            trace.add(L, T, requests=T)


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_an_exception_in_the_engine_loses_no_row(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    with contextlib.suppress(KeyboardInterrupt), TraceWriter(path) as trace:
        trace.add(L, T)
        if suffix == ".npz":
            assert list(tmp_path.iterdir()) == []  # nothing half-written
        else:
            assert path.read_bytes().count(b"\n") == 4  # readable while the engine runs
        raise KeyboardInterrupt
    assert len(everything(path.read_bytes(), path.name)[1]["p_token"]) == 3
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_a_write_that_fails_half_way_leaves_whole_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / f"x{suffix}"
    with TraceWriter(path) as trace:
        trace.add(L, T)
        broken = trace._file.file if suffix == ".jsonl" else trace._file.spools["p_before"][0]  # type: ignore[union-attr]

        class Full:
            def __getattr__(self, name: str) -> Any:
                return getattr(broken, name)

            def write(self, data: Any) -> int:
                broken.write(data[:5])
                raise OSError(28, "No space left on device")

        if suffix == ".jsonl":
            monkeypatch.setattr(trace._file, "file", Full())
        else:
            monkeypatch.setitem(trace._file.spools, "p_before", (Full(), np.dtype(float)))  # type: ignore[union-attr]
        with pytest.raises(OSError, match="No space"):
            trace.add(L, T + 1)
        monkeypatch.undo()
        if suffix == ".jsonl":
            assert len(everything(path.read_bytes(), path.name)[1]["p_token"]) == 3
        trace.add(L, T + 2)
    _, columns = everything(path.read_bytes(), path.name)
    assert columns == {"p_token": [0.25] * 6, "p_before": [0.0] * 3 + [0.5] * 3}


def test_an_npz_that_cannot_be_put_in_place_can_be_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TraceWriter(tmp_path / "x.npz")
    trace.add(L, T)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            trace.close()
    assert list(tmp_path.iterdir()) == []
    trace.close()
    trace.close()
    assert len(everything((tmp_path / "x.npz").read_bytes(), "x.npz")[1]["p_token"]) == 3
    with pytest.raises(ValueError, match="closed"):
        trace.add(L, T)


def test_a_trace_is_never_written_over_and_wrong_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"")
    for name, order, kind in (("x.npz", "p", FileExistsError), ("x.csv", "p", ValueError), ("y.npz", "r", ValueError)):
        with pytest.raises(kind):
            TraceWriter(tmp_path / name, order)
    with pytest.raises(OSError, match="No such file"):
        TraceWriter(tmp_path / "none" / "x.npz")


def test_the_writer_is_light_to_import() -> None:
    code = "import sys, verify.trace_writer; print([m for m in ('torch', 'scipy', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
