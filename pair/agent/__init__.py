"""A machine that offers its engines: it reports on them, admits as many requests as they have
slots, and relays.

It serves its own engines and nobody else's, so a request that enters a node ends there.

The way of a request: `App` (`app.py`: whose is it, is there room) -> `Visit` (`visit.py`: the one
request and its line in the log) -> `Admission` (`admission.py`: its slot) -> the relay's `carry`.
A proxy that found a replica full has the next slot (`Turns`, `turns.py`), and all hear of each
change (`ReportFeed`, `report_feed.py`). Beside it `EngineWatch` keeps the `EngineBook` true; `Node`
(`service.py`) ties all together.
"""
