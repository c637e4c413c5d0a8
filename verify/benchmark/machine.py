"""How much memory a piece of work takes at its peak, and on what machine."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

_LIBRARIES = ("rheosampling", "torch", "transformers", "numpy")


def reset_peak_memory(device: torch.device) -> None:
    """Measure from here on, where that is possible."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):  # Linux alone has it
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Peak bytes of the device on cuda, else of this process, weights included; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def machine(device: torch.device) -> dict[str, Any]:
    """What the times depend on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "memory_bytes": pages,
        "system": f"{platform.system()} {platform.release()}",
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def versions() -> dict[str, str]:
    """Of Python and the libraries that a result depends on."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _processor() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()
