"""Hashed n-grams: what one text gives does not depend on what is encoded beside it."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.features.ascii_text import counts_of, tokens_of
from harness_core.features.hashed import HashedEncoder

ASCII = st.text(st.characters(max_codepoint=127), max_size=200)
ANY = st.text(st.one_of(st.characters(max_codepoint=127), st.characters()), max_size=60)


@given(st.lists(ANY, max_size=40))
def test_a_text_gives_the_same_vector_alone_and_among_others(texts: list[str]) -> None:
    encoder = HashedEncoder()
    together = encoder.encode(texts)
    assert together.shape == (len(texts), encoder.width)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(encoder.encode([text])[0], vector)


STORED = {
    "abc -b": {16: -1, 34: 1, 106: -1, 260: 1, 324: 1, 334: -1, 344: -1, 378: 1, 398: -1}
    | {462: -1, 464: 1, 476: -1},
    "naïf": {5: -1, 74: 1, 198: 1, 274: 1, 456: 1, 464: -1, 468: 1},
}
"""Signs of the places that are not zero, as models have learnt them."""


@pytest.mark.parametrize("text", STORED)
def test_vectors_are_those_that_models_have_learnt_from(text: str) -> None:
    (vector,) = HashedEncoder().encode([text])
    places = np.flatnonzero(vector)
    assert dict(zip(places.tolist(), np.sign(vector[places]).tolist(), strict=True)) == STORED[text]
    np.testing.assert_allclose(np.abs(vector[places]), len(places) ** -0.5, rtol=1e-5)


def test_a_text_that_repeats_itself_more_often_than_counts_are_tabled_is_encoded() -> None:
    (vector,) = HashedEncoder().encode(["word " * 5000])
    np.testing.assert_allclose(np.linalg.norm(vector), 1.0, rtol=1e-5)


@given(ASCII)
def test_words_and_symbols_of_ascii_are_those_that_a_pattern_finds(text: str) -> None:
    found = [token.decode() for token in tokens_of(text.encode())]
    assert found == [*re.findall(r"\w+", text), *re.findall(r"[^\w\s]+", text)]


@given(ASCII)
def test_counts_of_ascii_are_those_of_characters(text: str) -> None:
    counts = counts_of(text.encode())
    assert counts.n_words == len(re.findall(r"\w+", text))
    assert counts.n_numbers == len(re.findall(r"\d+", text))
    assert counts.n_digits == sum(map(str.isdigit, text))
    assert counts.n_upper == sum(map(str.isupper, text))
    assert counts.n_symbols == sum(not (c.isalnum() or c.isspace()) for c in text)
