"""What a person sees: snapshots and job reports, as JSON dicts, become tables and bars.

Knows the JSON of docs/http-api.md and rich, and nothing of who fetched it: the same functions
show a proxy in this process, one on another machine, and a test's literal.
"""
