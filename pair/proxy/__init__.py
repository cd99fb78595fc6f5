"""The transparent proxy: a client's request becomes a ticket, gets a lease, and its answer is
relayed.

The way of a request: `front_door.py` (which kind of request is it) -> `forward.py` (one ticket, its
attempts) -> `dispatcher.py` (the one owner of the scheduler) -> `links.py` (the connections to each
node). `prober.py` asks the nodes how they are, `admin.py` answers everything about `pair` itself.
"""
