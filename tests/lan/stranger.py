"""A program that floods the LAN with mDNS records of nodes that do not exist, each sent once.

    python -m tests.lan.stranger pointers|whole COUNT

`pointers` names nodes and never says more of them; `whole` sends complete records. Prints `sent` at
the end.
"""

from __future__ import annotations

import asyncio
import sys

from zeroconf import (  # type: ignore[attr-defined] # public, though not in __all__
    DNSOutgoing,
    DNSRecord,
    IPVersion,
    ServiceInfo,
)
from zeroconf.asyncio import AsyncZeroconf

from pair.core.names import NodeId
from pair.wire.advert import SERVICE_TYPE, Advert, text_record

_ANSWER = 0x8400
_BURST = 50
"""Packets between two short pauses, so that the receiver's socket buffer does not drop them: the
flood must arrive."""


def _record(number: int) -> ServiceInfo:
    return ServiceInfo(
        SERVICE_TYPE,
        f"stranger {number}.{SERVICE_TYPE}",
        port=7248,
        properties=text_record(Advert(NodeId(f"stranger-{number}"), "stranger")),
        server=f"stranger-{number}.local.",
        addresses=[bytes([192, 168, 77, 200 + number % 50])],
    )


async def _flood(kind: str, count: int) -> None:
    async with AsyncZeroconf(interfaces=["0.0.0.0"], ip_version=IPVersion.V4Only) as service:
        await service.zeroconf.async_wait_for_start()
        for number in range(count):
            packet = DNSOutgoing(_ANSWER)
            record = _record(number)
            answers: list[DNSRecord] = [record.dns_pointer()]
            if kind == "whole":
                answers += [record.dns_service(), record.dns_text(), *record.dns_addresses()]
            for answer in answers:
                packet.add_answer_at_time(answer, 0)
            service.zeroconf.async_send(packet)
            if number % _BURST == 0:
                await asyncio.sleep(0.005)
    sys.stdout.write("sent\n")


if __name__ == "__main__":
    asyncio.run(_flood(sys.argv[1], int(sys.argv[2])))
