"""What was found out about texts, and the room that it may take."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.rewards.text_cache import TextCache


class Asked:
    """A function of a text that counts what it is asked."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()

    def __call__(self, text: str) -> int:
        """The length of the text."""
        self.times[text] += 1
        return len(text)


def test_a_text_is_looked_at_once_while_it_is_remembered() -> None:
    asked = Asked()
    cache = TextCache(asked, max_texts=2, max_characters=100)
    assert [cache(text) for text in ("one", "three", "one", "three")] == [3, 5, 3, 5]
    assert asked.times == {"one": 1, "three": 1}


def test_the_text_that_was_asked_for_longest_ago_is_forgotten_first() -> None:
    asked = Asked()
    cache = TextCache(asked, max_texts=2, max_characters=100)
    for text in ("one", "two", "one", "three", "one", "two"):
        cache(text)
    assert asked.times == {"one": 1, "two": 2, "three": 1}


def test_a_text_longer_than_all_the_room_is_answered_but_forgets_no_other() -> None:
    asked = Asked()
    cache = TextCache(asked, max_texts=10, max_characters=10)
    for text in ("short", "x" * 11, "x" * 11, "short"):
        assert cache(text) == len(text)
    assert asked.times == {"short": 1, "x" * 11: 2}


def test_what_breaks_is_asked_again() -> None:
    answers = iter((ValueError("once"), 7))

    def answer(text: str) -> int:
        del text
        one = next(answers)
        if isinstance(one, ValueError):
            raise one
        return one

    cache = TextCache(answer, max_texts=2, max_characters=10)
    with pytest.raises(ValueError, match="once"):
        cache("x")
    assert [cache("x"), cache("x")] == [7, 7]


@given(st.lists(st.text(max_size=12)), st.integers(1, 5), st.integers(0, 30))
def test_the_room_is_never_exceeded_whatever_is_asked(
    texts: list[str], max_texts: int, max_characters: int
) -> None:
    cache = TextCache(len, max_texts=max_texts, max_characters=max_characters)
    for text in texts:
        assert cache(text) == len(text)
        assert len(cache) <= max_texts
        assert cache.n_characters <= max_characters
