"""Bytes of request bodies that may be held in memory over all clients; beyond it the next upload waits its turn."""

from __future__ import annotations


class BodyBudget:
    """A fixed number of bytes, reserved whole, first come first served: nobody holds some while waiting for more."""

    def __init__(self, total_bytes: int) -> None:
        raise NotImplementedError

    async def reserve(self, amount_bytes: int) -> None:
        """Wait until that many are free, and take them; more than the total counts as the total."""
        raise NotImplementedError

    def give_back(self, amount_bytes: int) -> None:
        """What `reserve` took."""
        raise NotImplementedError
