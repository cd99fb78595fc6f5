from __future__ import annotations

import pytest

from pair.wire.engine_reports.metrics import gauge, label_count

PAGE = b"""# HELP app:running Requests in work. app:running 99
# TYPE app:running gauge
app:running{engine="0",model_name="a b{c}"} 2.0
app:running{engine="1",model_name="x"} 1 1700000000
app:running_by_reason{reason="x"} 40
  app:running 50
app:waiting 3
app:odd{} 1e1
app:broken one
app:nothing NaN
app:endless +Inf
app:negative -4
other:config_info{block_size="16",max_num_seqs="256"} 1.0
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("app:running", 3),
        ("app:waiting", 3),
        ("app:odd", 10),
        ("app:broken", None),
        ("app:nothing", None),
        ("app:endless", None),
        ("app:negative", None),
        ("app:missing", None),
        ("app:run", None),
        (".*", None),
    ],
)
def test_a_gauge_is_the_sum_of_its_own_samples(name: str, value: int | None) -> None:
    assert gauge(PAGE, name) == value


def test_samples_can_be_left_out_by_their_labels() -> None:
    assert gauge(PAGE, "app:running", lambda labels: b'engine="1"' in labels) == 1


def test_a_number_may_stand_in_a_label() -> None:
    assert label_count(PAGE, "other:", "max_num_seqs") == 256
    assert label_count(PAGE, "other:", "num_seqs") is None
    assert label_count(PAGE, "app:", "max_num_seqs") is None


def test_a_page_of_four_mebibytes_without_the_gauge_is_read_in_no_time() -> None:
    page = b'app:running_bucket{le="0.1",model_name="m"} 17\n' * 90_000
    assert gauge(page, "app:running") is None
    assert gauge(b"app:running{" * 350_000, "app:running") is None
