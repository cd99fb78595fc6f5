"""The same scheduler under virtual time: what a fleet would do with a workload, in seconds instead
of hours.

Never a second model of the scheduler: `proxy.py` feeds the shipped one with events from a heap and
performs its decisions. What it decides about is modelled: machines (`place.py`, `house.py`), what
they keep of prompts (`machine_cache.py`), and agents. Random numbers only from a `random.Random`
with an explicit seed.
"""
