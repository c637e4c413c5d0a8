"""Traces of a real engine, read in step and in constant memory: one row per emitted token.

A row has `p_token`, the probability that the target gave the token, and `p_before`, the mass of the tokens ranked
before it; optionally `q_token`, and the integers `request` and `position`. A column is there for every row or for none.

- .npz: one-dimensional arrays of equal length, float32 or float64 (integers for request and position), stored or
  deflated, as `numpy.savez` and `numpy.savez_compressed` write them.
- .jsonl: an object a line; other keys are ignored, blank lines skipped.
- .parquet: columns of those names; needs pyarrow.

The order that tokens were ranked in may be stated: npz by a string `order`, jsonl by a first line {"order": "p/q"},
parquet by the key `order` of the file's metadata.
"""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import IO, Any, BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

REQUIRED = ("p_token", "p_before")
LABELS = ("request", "position")
COLUMNS = (*REQUIRED, "q_token", *LABELS)
# How far a sum of probabilities may exceed 1: what summing 10^5 float32 terms one after the other can lose.
TOLERANCE = 1e-4
ROWS = 1 << 16  # of a chunk
_BYTES = 1 << 20  # of jsonl read at a time; a longer line is taken for none
_HEADER = 1 << 12  # a longer header of an array is taken for none


class TraceError(ValueError):
    """A trace that is not one. The message names the file, the row (from 0) or line (from 1), and the reason."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows. columns: those of COLUMNS that the trace has, float64 [n], labels int64 [n].

    numbers: the row or line numbers [n]; unit: which of the two; done: the share of the trace that has been read.
    """

    columns: dict[str, NDArray[Any]]
    numbers: NDArray[np.int64]
    unit: Literal["row", "line"]
    done: float

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, index: int) -> str:
        """Where a row of the chunk is, in words."""
        labels = [f"{name} {self.columns[name][index]}" for name in LABELS if name in self.columns]
        return ", ".join([f"{self.unit} {self.numbers[index]}", *labels])

    def after(self, rows: int) -> Chunk:
        """The chunk without its first rows."""
        return Chunk({k: v[rows:] for k, v in self.columns.items()}, self.numbers[rows:], self.unit, self.done)


@dataclass(frozen=True)
class Trace:
    """The order that tokens were ranked in, "" where it is not stated, and the rows: TraceError while they are read."""

    order: str
    chunks: Iterator[Chunk]


def read(file: BinaryIO, name: str, size: int) -> Trace:
    """The trace in a file of `size` bytes, by its name's suffix. TraceError, also while the rows are read.

    Of jsonl that has grown longer, the first `size` bytes.
    """
    readers: dict[str, Callable[[BinaryIO, str, int], Trace]] = {
        ".npz": _npz,
        ".jsonl": _jsonl,
        ".parquet": _parquet,
    }
    reader = readers.get(PurePath(name).suffix.lower())
    if reader is None:
        raise TraceError(f"{name}: the suffix is none of {', '.join(readers)}")
    trace = reader(file, name, size)
    return Trace(trace.order, _checked(trace.chunks, name))


def _checked(chunks: Iterator[Chunk], name: str) -> Iterator[Chunk]:
    rows = 0
    for chunk in chunks:
        columns = chunk.columns
        with np.errstate(all="ignore"):
            right = (columns["p_token"] >= 0) & (columns["p_before"] >= 0)  # a NaN is in no relation
            right &= columns["p_token"] + columns["p_before"] <= 1 + TOLERANCE
            if "q_token" in columns:
                right &= (columns["q_token"] >= 0) & (columns["q_token"] <= 1 + TOLERANCE)
        if not right.all():
            row = int(np.argmin(right))
            values = ", ".join(f"{c} {columns[c][row]:.6g}" for c in COLUMNS[:3] if c in columns)
            raise TraceError(f"{name}: {chunk.place(row)}: {values}: no probabilities, or p_token + p_before above 1")
        rows += len(chunk)
        yield chunk
    if rows == 0:
        raise TraceError(f"{name}: no rows")


@contextmanager
def _reading(name: str, what: str) -> Iterator[None]:
    """Turn whatever the readers of a format raise on a broken file into a TraceError. They document no list of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TraceError:
        raise
    except Exception as error:
        raise TraceError(f"{name}: {what}: {str(error)[:200] or type(error).__name__}") from error


def _require_columns(name: str, columns: Collection[str]) -> None:
    for column in REQUIRED:
        if column not in columns:
            raise TraceError(f"{name}: no {column}")


def _npz(file: BinaryIO, name: str, size: int) -> Trace:
    order, columns = "", {}
    with _reading(name, "no readable npz"):
        archive = zipfile.ZipFile(file)
        members = archive.namelist()
        if "order.npy" in members:
            stream, dtype, shape = _array(archive, "order.npy")
            if dtype.kind != "U" or shape != () or not 0 < dtype.itemsize <= _HEADER:
                raise ValueError("order is not a string")
            order = str(np.frombuffer(stream.read(), dtype)[0])
        columns = {column: _array(archive, f"{column}.npy") for column in COLUMNS if f"{column}.npy" in members}
    _require_columns(name, columns)
    for column, (_, dtype, shape) in columns.items():
        if not (dtype.kind in "iu" if column in LABELS else dtype.kind == "f" and dtype.itemsize in (4, 8)):
            raise TraceError(f"{name}: {column}: dtype {dtype}, not {_wanted(column)}")
        if len(shape) != 1:
            raise TraceError(f"{name}: {column}: shape {shape}, not one-dimensional")
        if shape != columns["p_token"][2]:
            raise TraceError(f"{name}: {column}: {shape[0]} rows, but p_token has {columns['p_token'][2][0]}")
    total = columns["p_token"][2][0]

    def chunks() -> Iterator[Chunk]:
        for first in range(0, total, ROWS):
            count = min(ROWS, total - first)
            with _reading(name, f"row {first} or after"):
                values = {
                    column: np.frombuffer(stream.read(count * dtype.itemsize), dtype, count).astype(_dtype(column))
                    for column, (stream, dtype, _) in columns.items()
                }
            yield Chunk(values, np.arange(first, first + count), "row", (first + count) / total)

    return Trace(order, chunks())


def _array(archive: zipfile.ZipFile, member: str) -> tuple[IO[bytes], np.dtype[Any], tuple[int, ...]]:
    """A stream of the numbers in an array of an npz file, their type and the array's shape."""
    with archive.open(member) as stream:
        head = io.BytesIO(stream.read(_HEADER))
    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(head)
    if version not in headers:
        raise ValueError(f"{member}: version {version} of the format")
    shape, _, dtype = headers[version](head)
    length = archive.getinfo(member).file_size - head.tell()
    if length != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{member}: {length} bytes for shape {shape} and dtype {dtype}")
    stream = archive.open(member)
    stream.read(head.tell())
    return stream, dtype, shape


def _dtype(column: str) -> type[np.generic]:
    return np.int64 if column in LABELS else np.float64


def _wanted(column: str) -> str:
    return "integers" if column in LABELS else "float32 or float64"


def _jsonl(file: BinaryIO, name: str, size: int) -> Trace:
    line = file.readline(_BYTES)
    first = _object(line)
    order = str(first["order"]) if "order" in first and "p_token" not in first else ""
    begin, number = (len(line), 2) if order else (0, 1)
    file.seek(begin)
    row = _object(next((line for line in iter(partial(file.readline, _BYTES), b"") if line.strip()), b""))
    columns = [column for column in COLUMNS if column in REQUIRED or column in row]
    file.seek(begin)

    def chunks() -> Iterator[Chunk]:
        for first, block in _blocks(file, size, name, number):
            numbers, values = _rows(block, columns, first, name)
            yield Chunk(values, numbers, "line", file.tell() / size)

    return Trace(order, chunks())


def _object(line: bytes) -> dict[str, Any]:
    """The object on a line; an empty one where there is none, which is complained about when the rows are read."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _blocks(file: BinaryIO, end: int, name: str, number: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines, and the number of the first of them, until a position in the file."""
    rest = b""
    while data := file.read(max(0, min(_BYTES, end - file.tell()))):
        block, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            yield number, block
            number += block.count(b"\n") + 1
        if len(rest) > _BYTES:
            raise TraceError(f"{name}: line {number}: longer than {_BYTES} bytes")
    if rest:
        yield number, rest


def _rows(block: bytes, columns: list[str], first: int, name: str) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """The line numbers of the rows in a block of whole lines, and their columns."""
    try:  # Several times faster than a line at a time. Where it fails, a line is blank or at fault.
        rows = json.loads("[" + block.decode().replace("\n", ",") + "]")
        if len(rows) == block.count(b"\n") + 1:
            return np.arange(first, first + len(rows)), _columns(rows, columns)
    except (ValueError, OverflowError, RecursionError):
        pass
    numbers, rows = [], []
    for number, line in enumerate(block.split(b"\n"), first):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode())
            _columns([row], columns)
        except json.JSONDecodeError as error:
            raise TraceError(f"{name}: line {number}: {error.msg} at column {error.colno}") from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise TraceError(f"{name}: line {number}: {error}") from None
        numbers.append(number)
        rows.append(row)
    return np.array(numbers, dtype=np.int64), _columns(rows, columns)


def _columns(rows: list[Any], columns: list[str]) -> dict[str, NDArray[Any]]:
    """The columns of parsed rows. ValueError or OverflowError if a row has not all of them, each with its number."""
    if not set(map(type, rows)) <= {dict}:
        raise ValueError("not an object")
    arrays = {}
    for column in columns:
        try:
            values = [row[column] for row in rows]
        except KeyError:
            raise ValueError(f"no {column}") from None
        if not set(map(type, values)) <= ({int} if column in LABELS else {int, float}):
            raise ValueError(f"{column} is not {'an integer' if column in LABELS else 'a number'}")
        arrays[column] = np.array(values, dtype=_dtype(column))
    return arrays


def _parquet(file: BinaryIO, name: str, size: int) -> Trace:
    try:
        from pyarrow import parquet, types
    except ImportError:
        raise TraceError(f"{name}: parquet needs pyarrow: pip install 'rheosampling[parquet]'") from None
    with _reading(name, "no readable parquet"):
        # Unbuffered, whole row groups are held, and kept.
        source = parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BYTES)
        schema, total = source.schema_arrow, source.metadata.num_rows
        order = (schema.metadata or {}).get(b"order", b"").decode()
    columns = [column for column in COLUMNS if schema.get_field_index(column) >= 0]
    _require_columns(name, columns)
    for column in columns:
        kind = schema.field(column).type
        right = types.is_integer if column in LABELS else lambda t: types.is_float32(t) or types.is_float64(t)
        if not right(kind):
            raise TraceError(f"{name}: {column}: type {kind}, not {_wanted(column)}")

    def chunks() -> Iterator[Chunk]:
        batches, first = source.iter_batches(ROWS, columns=columns), 0
        while True:
            with _reading(name, f"row {first} or after"):
                batch = next(batches, None)
                if batch is None:
                    return
                values = {}
                for column in columns:
                    array = batch.column(column)
                    if array.null_count:
                        row = first + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
                        raise TraceError(f"{name}: row {row}: no {column}")
                    values[column] = array.to_numpy(zero_copy_only=False).astype(_dtype(column))
            yield Chunk(values, np.arange(first, first + len(batch)), "row", (first + len(batch)) / total)
            first += len(batch)

    return Trace(order, chunks())
