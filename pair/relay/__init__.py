"""Bytes between two connections: the data path of proxy and node alike.

It knows nothing of tickets.

Both sides are `asyncio.Protocol`s with httptools (llhttp) as the parser, uvloop where there is
one, public interfaces only. A head is read and rewritten once; body bytes go from one transport to
the other as they come.
"""
