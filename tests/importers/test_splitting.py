"""Records are found wherever the chunks of a file happen to end."""

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.importers.splitting import ElementSplitter, split_lines

TEXTS = st.text(alphabet='ab"\\[]{},:\n é', max_size=8)
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=5)
QUICK = settings(max_examples=150, deadline=None, derandomize=True, database=None)


def chunked(data: bytes, sizes: list[int]):
    position = turn = 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        yield data[position : position + size]
        position += size
        turn += 1


@QUICK
@given(values=st.lists(VALUES, max_size=5), sizes=CUTS, pretty=st.booleans())
def test_the_elements_of_an_array_are_found_at_their_offsets(values, sizes, pretty):
    data = b"  " + orjson.dumps(values, option=orjson.OPT_INDENT_2 if pretty else 0) + b"\n"
    splitter = ElementSplitter(limit=1000)
    pieces = list(splitter.split(chunked(data, sizes)))
    assert [orjson.loads(piece.data) for piece in pieces] == values
    assert all(data[piece.offset :].startswith(piece.data) for piece in pieces)
    assert (splitter.is_complete, splitter.has_trailing) == (True, False)


@QUICK
@given(members=st.dictionaries(TEXTS, VALUES, max_size=5), sizes=CUTS)
def test_the_members_of_an_object_are_found(members, sizes):
    splitter = ElementSplitter(limit=1000)
    pieces = splitter.split(chunked(orjson.dumps(members), sizes))
    found = [orjson.loads(b"{" + piece.data + b"}") for piece in pieces]
    assert found == [{key: value} for key, value in members.items()]


@QUICK
@given(
    lines=st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=6),
    sizes=CUTS,
)
def test_lines_are_found_at_their_offsets_and_long_ones_are_cut(lines, sizes):
    data = b"".join(line + b"\n" for line in lines)
    pieces = list(split_lines(chunked(data, sizes), limit=6))
    assert [piece.number for piece in pieces] == list(range(1, len(lines) + 1))
    assert [piece.is_too_large for piece in pieces] == [len(line) > 6 for line in lines]
    for piece, line in zip(pieces, lines, strict=True):
        assert data[piece.offset :].startswith(line)
        assert piece.is_too_large or piece.data == line
