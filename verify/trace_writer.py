"""What an engine calls to write a trace that `rheo audit` reads. Imports NumPy; torch only comes in with a tensor.

    with TraceWriter("trace.npz", order="p/q") as trace:
        trace.add(logits, tokens, q_logits=draft_logits)  # [n, V], [n], [n, V]: torch or NumPy, as often as you like

What is proved depends on what is handed in:

- `logits` must come from an independent forward of the target over the emitted text, one row per emitted token, after
  temperature and every processor. Those that the engine itself verified with hide stale caches and wrong rows.
- The order that tokens are ranked in, and which tokens are logged, may depend on the emitted text alone: never on what
  the tree held, on what was accepted or on how long a round was. With order q and p/q, `q_logits` is the draft's row
  after the same emitted prefix, recomputed, whether or not the draft was asked there.
- Tokens after the end of the sequence are to be left out.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import zipfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from verify.orders import ORDERS, Floats, mass_before

_ENTRIES = 1 << 22  # of [rows, vocab] in float64 at a time

Columns = dict[str, NDArray[Any]]


class TraceWriter:
    """Writes .npz or .jsonl, by the suffix of a path where nothing is yet (else FileExistsError).

    An npz appears whole when the writer is closed, also by an exception: with all rows of the calls of `add` that
    returned. jsonl grows by whole lines with every call, so that a running engine can be audited.

    order: of verify.orders.ORDERS. ValueError for another one, or another suffix.
    """

    def __init__(self, path: str | os.PathLike[str], order: str = "p") -> None:
        self.path, self.order = Path(path), order
        if order not in ORDERS:
            raise ValueError(f"order: {order!r} is none of {', '.join(ORDERS)}")
        files: dict[str, type[_Npz | _Jsonl]] = {".npz": _Npz, ".jsonl": _Jsonl}
        if self.path.suffix.lower() not in files:
            raise ValueError(f"{self.path}: the suffix is none of {', '.join(files)}")
        if self.path.exists():
            raise FileExistsError(errno.EEXIST, "a trace is never written over", str(self.path))
        self._file = files[self.path.suffix.lower()](self.path, order)
        self._columns: list[str] | None = None

    def add(self, logits: Any, tokens: Any, q_logits: Any = None, requests: Any = None, positions: Any = None) -> None:
        """Write n emitted tokens, all of them or, on an error, none.

        logits: the target's, [n, V], any float type; -inf for what is excluded. tokens: ids [n]. q_logits: the draft's
        [n, V], after the draft's temperature and processors. requests, positions: integers [n], to find a row again.
        All are torch tensors, on any device, or NumPy arrays. Computed in float64. ValueError that names what is wrong.
        """
        if q_logits is None and self.order != "p":
            raise ValueError(f"q_logits: needed to rank tokens by {self.order}")
        if len(logits.shape) != 2 or not logits.shape[1]:
            raise ValueError(f"logits: shape {tuple(logits.shape)}, not [n, V]")
        n, vocab = logits.shape
        ids = _integers("tokens", tokens, n)
        if q_logits is not None and tuple(q_logits.shape) != (n, vocab):
            raise ValueError(f"q_logits: shape {tuple(q_logits.shape)}, but logits have {(n, vocab)}")
        if n and not (ids.min() >= 0 and ids.max() < vocab):
            raise ValueError(f"tokens: an id outside [0, {vocab})")
        columns: Columns = {"p_token": np.empty(n), "p_before": np.empty(n)}
        if q_logits is not None:
            columns["q_token"] = np.empty(n)
        for name, labels in (("request", requests), ("position", positions)):
            if labels is not None:
                columns[name] = _integers(f"{name}s", labels, n)
        step = max(1, _ENTRIES // vocab)
        for rows in (slice(start, min(start + step, n)) for start in range(0, n, step)):
            p = _softmax("logits", logits[rows], rows.start)
            q = p if q_logits is None else _softmax("q_logits", q_logits[rows], rows.start)
            own = ids[rows, None]
            columns["p_token"][rows] = np.take_along_axis(p, own, axis=1)[:, 0]
            columns["p_before"][rows] = mass_before(ORDERS[self.order](p, q), p, ids[rows])
            if q_logits is not None:
                columns["q_token"][rows] = np.take_along_axis(q, own, axis=1)[:, 0]
        if self._columns is None:
            self._columns = list(columns)
        if list(columns) != self._columns:
            raise ValueError(f"columns {', '.join(columns)}, but {', '.join(self._columns)} in the calls before")
        self._file.write(columns)

    def close(self) -> None:
        """Finish the file. To call it again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _array(values: Any) -> NDArray[Any]:
    """A torch tensor or anything like an array, as an array. NumPy has no bfloat16: floats come as float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    return np.asarray(values)


def _integers(name: str, values: Any, n: int) -> NDArray[np.int64]:
    array = _array(values)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise ValueError(f"{name}: {array.dtype} {array.shape}, not integers [{n}]")
    return array.astype(np.int64)


def _softmax(name: str, values: Any, first: int) -> Floats:
    logits = np.asarray(_array(values), dtype=np.float64)
    highest = logits.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        row = first + int(np.argmin(np.isfinite(highest)))
        raise ValueError(f"{name}: row {row} has a NaN or inf, or nothing above -inf")
    weights = np.exp(logits - highest)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class _Npz:
    """Columns in unnamed files beside the path, put together at the end."""

    def __init__(self, path: Path, order: str) -> None:
        self.path, self.order, self.rows, self.closed = path, order, 0, False
        self.spools: dict[str, tuple[IO[bytes], np.dtype[Any]]] = {}
        tempfile.TemporaryFile(dir=path.parent).close()  # an OSError now rather than later

    def write(self, columns: Columns) -> None:
        if self.closed:
            raise ValueError(f"{self.path}: closed")
        for name, values in columns.items():
            if name not in self.spools:
                self.spools[name] = tempfile.TemporaryFile(dir=self.path.parent), values.dtype  # noqa: SIM115
            spool, _ = self.spools[name]
            spool.seek(self.rows * values.itemsize)  # over what a call that failed may have left
            spool.write(values.tobytes())
            spool.flush()
        self.rows += len(columns["p_token"])

    def close(self) -> None:
        if self.closed:
            return
        partial = self.path.with_name(f".{self.path.name[:100]}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(partial, "w") as archive:
                with archive.open("order.npy", "w") as member:
                    npy.write_array(member, np.array(self.order), allow_pickle=False)
                for name, (spool, dtype) in self.spools.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (self.rows,)}
                        npy.write_array_header_1_0(member, header)
                        spool.seek(0)
                        left = self.rows * dtype.itemsize
                        while left:
                            left -= member.write(spool.read(min(left, 1 << 20)))
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)
        self.closed = True  # not before: where it failed, as on a full disk, it can be tried again
        for spool, _ in self.spools.values():
            spool.close()


class _Jsonl:
    """Lines, written out call by call."""

    def __init__(self, path: Path, order: str) -> None:
        self.path, self.end = path, 0
        self.file = path.open("xb", buffering=0)
        self._append(json.dumps({"order": order}) + "\n")

    def write(self, columns: Columns) -> None:
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        self._append("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))

    def _append(self, text: str) -> None:
        left = memoryview(text.encode())
        try:
            while left:
                left = left[self.file.write(left) :]
        except BaseException:
            self.file.truncate(self.end)
            self.file.seek(self.end)
            raise
        self.end = self.file.tell()

    def close(self) -> None:
        self.file.close()
