"""The same scheduler under virtual time: what a fleet would do with a workload, in seconds instead
of hours.

Never a second model of the scheduler: `world.py` feeds the shipped one with events from a heap and
performs its decisions. Random numbers only from a `random.Random` with an explicit seed.
"""
