"""What was found out about texts, as long as there is room for it.

Bounded by the length of the texts and not only by their number: whoever serves for months is sent
texts of any length, and each of them only once or twice.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class TextCache(Generic[_Value]):
    """A function of a text that remembers its last answers; many threads may ask it."""

    def __init__(
        self, answer: Callable[[str], _Value], *, max_texts: int, max_characters: int
    ) -> None:
        """Nothing is remembered at first.

        Args:
            answer: the function; what it raises is not remembered.
            max_texts: how many texts are remembered, at most.
            max_characters: how long they are together, at most. A longer text is not remembered.
        """
        self._answer = answer
        self._max_texts = max_texts
        self._max_characters = max_characters
        self._answers: OrderedDict[str, _Value] = OrderedDict()
        self._n_characters = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> _Value:
        """The answer to a text."""
        with self._lock:
            if text in self._answers:
                self._answers.move_to_end(text)
                return self._answers[text]
        # Others are not kept waiting; two who ask the same at once may both work it out.
        answer = self._answer(text)
        if len(text) <= self._max_characters:
            with self._lock:
                self._remember(text, answer)
        return answer

    def __len__(self) -> int:
        """How many texts are remembered."""
        return len(self._answers)

    @property
    def n_characters(self) -> int:
        """How long the texts are that are remembered."""
        return self._n_characters

    def _remember(self, text: str, answer: _Value) -> None:
        if text not in self._answers:
            self._n_characters += len(text)
        self._answers[text] = answer
        while len(self._answers) > self._max_texts or self._n_characters > self._max_characters:
            asked_longest_ago, _ = self._answers.popitem(last=False)
            self._n_characters -= len(asked_longest_ago)
