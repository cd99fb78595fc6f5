"""Bytes and dicts to values and back: pure, so that every oddity of an engine or a client is a
one-line test.
"""
