"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def require_writable(path: Path) -> None:
    """OSError, before any work is done, for a path that `write_text` could not or should not write."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "not a regular file", str(path))
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "the folder cannot be written to", str(folder))


def unused(folder: Path, stem: str) -> Path:
    """A path in a folder, STEM.json or STEM-2.json and so on, that no file has yet."""
    names = (f"{stem}.json", *(f"{stem}-{i}.json" for i in range(2, 10_000)))
    return next(folder / name for name in names if not (folder / name).exists())


def write_text(path: Path, text: str) -> None:
    """Replace `path` by the text: a reader, a crash or Ctrl-C never meets half of it. A link's target is replaced.

    Its folder is made if missing. OSError where that is not possible, and for anything but a regular file.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    require_writable(path)
    partial = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
