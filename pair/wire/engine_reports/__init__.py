"""What the engines say of themselves, from bytes to values; a file for each kind.

Apart from `node_report.py`, which is our own exact form: these bytes are foreign. Every field may
be missing, null or of another type, so a reader takes what it understands. What is no list at all
raises GarbledAnswer and nothing else does.
"""
