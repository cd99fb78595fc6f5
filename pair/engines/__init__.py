"""The inference engines beside us: what kind stands at an address, and how it is.

Only status paths are read here, never a generation; requests go through `pair/relay`. A module for
each kind holds what is particular to it; reading the bytes is `pair/wire/engine_reports`.
"""
