"""The command line: reads argv, environment and files, builds the objects, owns the loop.

One module for each group of commands; each exports plain functions that `main.py` registers. Only
`wiring.py` builds the long-lived objects, so that what belongs to what can be read in one place.
"""
