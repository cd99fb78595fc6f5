from __future__ import annotations

from pair.bench.echo_engine.prefix_cache import PrefixCache, Slot


def cache(similarity: float = 0.1, shelf_limit_tokens: int = 0) -> PrefixCache:
    return PrefixCache(similarity=similarity, shelf_limit_tokens=shelf_limit_tokens)


def text(letter: str, tokens: int) -> str:
    return letter * (tokens * 4)


def work(of: PrefixCache, slots: list[Slot], prompt: str, model: str = "m") -> tuple[Slot, int]:
    """Serve `prompt` on one of `slots`; the slot and the tokens it had cached."""
    slot = of.choose(slots, model, prompt)
    cached = of.load(slot, model, prompt)
    slot.model, slot.held = model, prompt
    return slot, cached


def test_a_prompt_goes_where_its_beginning_is() -> None:
    book, slots = cache(), [Slot(0), Slot(1)]
    first, _ = work(book, slots, text("a", 10))
    second, _ = work(book, slots, text("b", 10))
    assert first is not second
    again, cached = work(book, slots, text("a", 10) + text("x", 5))
    assert again is first
    assert cached == 10


def test_a_short_beginning_in_common_does_not_count() -> None:
    book, slots = cache(similarity=0.5), [Slot(0), Slot(1)]
    first, _ = work(book, slots, text("a", 4) + text("b", 6))
    second, _ = work(book, slots, text("c", 10))
    oldest, cached = work(book, slots, text("a", 4) + text("d", 6))
    # It goes to the least recently used one, which here happens to share 4 tokens of 10.
    assert oldest is first
    assert cached == 4
    assert work(book, slots, text("a", 4) + text("e", 6))[0] is second


def test_without_a_match_the_least_recently_used_slot_is_overwritten() -> None:
    book, slots = cache(), [Slot(0), Slot(1)]
    first, _ = work(book, slots, text("a", 10))
    second, _ = work(book, slots, text("b", 10))
    work(book, slots, text("a", 10))
    assert work(book, slots, text("c", 10))[0] is second
    evicted, cached = work(book, slots, text("b", 10))
    assert evicted is first
    assert cached == 0


def test_one_token_is_always_left_to_prefill() -> None:
    book, slots = cache(), [Slot(0)]
    work(book, slots, text("a", 10))
    assert work(book, slots, text("a", 10))[1] == 9


def test_another_model_shares_nothing() -> None:
    book, slots = cache(), [Slot(0)]
    work(book, slots, text("a", 10), model="one")
    assert work(book, slots, text("a", 10), model="other")[1] == 0


def test_the_shelf_gives_back_what_a_slot_had_to_forget() -> None:
    book, slots = cache(shelf_limit_tokens=100), [Slot(0)]
    work(book, slots, text("a", 10))
    assert work(book, slots, text("b", 10))[1] == 0
    assert work(book, slots, text("a", 10))[1] == 9
    assert work(book, slots, text("b", 10))[1] == 9


def test_the_shelf_is_bounded_and_forgets_the_oldest() -> None:
    book, slots = cache(shelf_limit_tokens=20), [Slot(0)]
    for letter in "abcd":
        work(book, slots, text(letter, 10))
    # The slot holds d; of the others only the last two fit.
    assert work(book, slots, text("a", 10))[1] == 0
    # a has displaced b, as d came onto the shelf beside c.
    assert work(book, slots, text("b", 10))[1] == 0
    assert work(book, slots, text("d", 10))[1] == 9


def test_a_prompt_larger_than_the_shelf_is_not_shelved_and_displaces_nothing() -> None:
    book, slots = cache(shelf_limit_tokens=20), [Slot(0)]
    work(book, slots, text("a", 10))
    work(book, slots, text("b", 30))
    work(book, slots, text("c", 10))
    assert work(book, slots, text("a", 10))[1] == 9
    assert work(book, slots, text("b", 30))[1] == 0


def test_a_conversation_going_on_is_not_copied_to_the_shelf() -> None:
    book, slots = cache(shelf_limit_tokens=1000), [Slot(0)]
    work(book, slots, text("a", 10))
    work(book, slots, text("a", 10) + text("b", 10))
    work(book, slots, text("c", 10))
    # Only the longer text was shelved; it serves the shorter, too, and leaves the shelf for it.
    assert work(book, slots, text("a", 10))[1] == 9
    assert work(book, slots, text("a", 10) + text("b", 10))[1] == 10


def test_clearing_forgets_slots_and_shelf() -> None:
    book, slots = cache(shelf_limit_tokens=100), [Slot(0)]
    work(book, slots, text("a", 10))
    work(book, slots, text("b", 10))
    book.clear(slots)
    assert work(book, slots, text("b", 10))[1] == 0
    assert work(book, slots, text("a", 10))[1] == 0
