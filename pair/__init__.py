"""`pair`: every machine in the house that holds a model, behind one address.

The layers and what each may touch are in docs/architecture.md. This file holds nothing but the
version, so that importing `pair` costs nothing.
"""

__version__ = "0.1.0"
