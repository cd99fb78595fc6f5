"""A few gauges out of a page in Prometheus' text format.

A whole parser would read thousands of histogram lines each second for two numbers, so this looks
for the wanted lines only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

_SAMPLE = rb"^%s(?:\{([^\n]*)\})?[ \t]+([^\s#]+)"
"""Name, labels, value. Greedy to the line's last brace: a label's value may contain one."""


def gauge(
    page: bytes, name: str, counts: Callable[[bytes], bool] = lambda labels: True
) -> int | None:
    """The sum of this gauge over all its samples, None where it has none.

    `counts` says by the text of a sample's labels whether it belongs in the sum.
    """
    total = 0.0
    found = False
    for sample in re.finditer(_SAMPLE % re.escape(name.encode()), page, re.MULTILINE):
        try:
            value = float(sample[2])
        except ValueError:
            continue
        if not math.isfinite(value) or value < 0 or not counts(sample[1] or b""):
            continue
        total += value
        found = True
    return round(total) if found else None


def label_count(page: bytes, prefix: str, label: str) -> int | None:
    """The whole number that some series with this prefix carries as a label, None if none does."""
    pattern = rb'^%s[^\n]*[{,]%s="(\d{1,9})"' % (
        re.escape(prefix.encode()),
        re.escape(label.encode()),
    )
    found = re.search(pattern, page, re.MULTILINE)
    return int(found[1]) if found else None
