"""What was learned of the house, kept in a file while `pair` does not run.

Separate from the numbers (`pair/core/estimates.py`), which know no file, and from their form
(`pair/wire/estimates_json.py`). It is only a memory: without it the first few calls teach the same
again, so nothing that goes wrong with the file stops anything. A file that cannot be understood is
set aside for whoever wants to know why, and a new one begun.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pair.core.estimates import Estimates, Learned
from pair.wire.estimates_json import (
    SIZE_LIMIT_BYTES,
    GarbledEstimates,
    decode_learned,
    encode_learned,
)

logger = logging.getLogger(__name__)

FILE_NAME = "estimates.json"
"""In the folder of the machine's state."""

_ASIDE = ".broken"


class Memory:
    """One file. Files are read and written in threads, since a disk may take seconds.

    Args:
        file: its folder is made where it is missing.
        save_every_s: what was learned within it is lost when the machine loses its power.
    """

    def __init__(self, file: Path, *, save_every_s: float) -> None:
        self._file = file
        self._save_every_s = save_every_s
        self._writing = threading.Lock()
        self._begun = 0
        self._written = 0
        self._kept: Learned | None = None
        """What stands in the file."""
        self._failed = False

    async def load(self, estimates: Estimates) -> None:
        """Take over what the file holds; none is nothing, and a bad one a warning."""
        learned = await asyncio.to_thread(self._read)
        if learned is not None:
            estimates.restore(learned)
            self._kept = estimates.learned()

    @asynccontextmanager
    async def kept(self, estimates: Estimates) -> AsyncIterator[None]:
        """Load, and keep the file up to date for as long as this is entered."""
        await self.load(estimates)
        tasks = asyncio.TaskGroup()
        await tasks.__aenter__()
        saving = tasks.create_task(self.run(estimates), name="what was learned")
        try:
            yield
        finally:
            saving.cancel()
            # Without the error of whoever is inside: the group would put itself around it.
            await tasks.__aexit__(None, None, None)
            await self.save(estimates)  # a task that is cancelled before it began does nothing

    async def run(self, estimates: Estimates) -> None:
        """Save now and then; ends when it is cancelled."""
        while True:
            await asyncio.sleep(self._save_every_s)
            try:
                await self.save(estimates)
            except Exception:
                logger.exception("saving what was learned")

    async def save(self, estimates: Estimates) -> None:
        """Write the file, whole or not at all; not where nothing has changed. A disk that does not
        take it is a warning, the first time.
        """
        learned = estimates.learned()
        if learned != self._kept:
            self._begun += 1
            await asyncio.to_thread(self._write, learned, self._begun)

    def _read(self) -> Learned | None:
        try:
            with self._file.open("rb") as stream:
                text = stream.read(SIZE_LIMIT_BYTES + 1)
            return decode_learned(text)
        except FileNotFoundError:
            return None
        except OSError as fault:
            logger.warning("what was learned before can't be read: %s", fault)
            return None
        except GarbledEstimates as fault:
            logger.warning("%s is garbled (%s); set aside as %s", self._file, fault, self._aside)
        try:
            self._file.replace(self._aside)
        except OSError as fault:
            logger.warning("%s could not be set aside: %s", self._file, fault)
        return None

    @property
    def _aside(self) -> Path:
        return self._file.with_name(self._file.name + _ASIDE)

    def _write(self, learned: Learned, number: int) -> None:
        """In a thread of its own. A save that was given up may still be under way there when the
        next begins, and the older must not come out on top.
        """
        with self._writing:
            if number <= self._written:
                return
            self._written = number
            try:
                _replace(self._file, encode_learned(learned))
            except OSError as fault:
                if not self._failed:
                    logger.warning("what was learned can't be kept: %s", fault)
                self._failed = True
                return
            self._kept, self._failed = learned, False


def _replace(file: Path, text: bytes) -> None:
    """Write a file that only its owner can read: first beside it, so that it is never half of one.

    Raises:
        OSError: the disk or the permissions do not allow it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
    written = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        written.replace(file)
    finally:
        written.unlink(missing_ok=True)
