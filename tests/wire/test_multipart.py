"""One field out of a form, whole or broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.wire.multipart import PARTS_LIMIT, form_field

KIND = b"multipart/form-data; boundary=xyz"


def part(name: bytes, value: bytes, more: bytes = b"") -> bytes:
    return (
        b'--xyz\r\nContent-Disposition: form-data; name="'
        + name
        + b'"'
        + more
        + (b"\r\n\r\n" + value + b"\r\n")
    )


@pytest.mark.parametrize(
    ("body", "kind", "found"),
    [
        (part(b"model", b"a") + b"--xyz--", KIND, "a"),
        (part(b"file", b"\x00" * 100_000) + part(b"model", b"a/b") + b"--xyz--\r\n", KIND, "a/b"),
        (part(b"file", b"x", b'; filename="model"') + part(b"model", b"a") + b"--xyz--", KIND, "a"),
        (
            b"--xyz\r\ncontent-disposition: form-data; name=model\r\n\r\n a \r\n--xyz--",
            KIND,
            "a",
        ),
        (b"preamble\r\n" + part(b"model", b"a") + b"--xyz--", b'x; boundary="xyz"; y=1', "a"),
        (part(b"model", "ü".encode()) + b"--xyz--", KIND, "ü"),
        (part(b"model2", b"a") + b"--xyz--", KIND, None),
        (part(b"model", b"a"), KIND, None),
        (b"--xyz\r\nno head--xyz\r\n--xyz--", KIND, None),
        (part(b"model", b"a") + b"--xyz--", b"multipart/form-data", None),
        (part(b"x", b"y") * PARTS_LIMIT + part(b"model", b"a") + b"--xyz--", KIND, None),
        (b"", KIND, None),
    ],
)
def test_a_field_of_a_form(body: bytes, kind: bytes, found: str | None) -> None:
    assert form_field(body, kind, b"model") == found


@given(st.lists(st.sampled_from([b"--xyz", b"\r\n", b"name=model", b"\r\n\r\n", b"a", b"--"])))
def test_a_broken_form_never_raises(parts: list[bytes]) -> None:
    found = form_field(b"".join(parts), KIND, b"model")
    assert found is None or isinstance(found, str)
