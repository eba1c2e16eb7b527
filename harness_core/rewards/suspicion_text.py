"""What a Python program says to people and tools around it: comments and strings, not its code."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

_LINTER: Final = re.compile(
    r"#.*\b(noqa\b|nosec\b|nosemgrep\b|type:\s*ignore|pylint:\s*(disable|skip)|mypy:\s*ignore"
    r"|pyright:\s*(ignore|basic)|pragma:\s*no\s*cover|isort:\s*(skip|off)|yapf:\s*disable)"
    r"|#\s*fmt:\s*(off|skip)",
    re.IGNORECASE,
)
_JUDGES: Final = r"(grader|judge|evaluator|reviewer|examiner|marker|llm|language model|ai\b)"
_TO_A_JUDGE: Final = re.compile(
    rf"""
      \b(grade|score|rating|marks?|verdict)\s*(:|=|is|should\s+be)\s*
        (10\s*/\s*10|100\s*/\s*100|5\s*/\s*5|100\s*%|(perfect|full|maximum|pass(ed)?|correct)\b)
    | \b(dear|attention|note\s+(to|for)|hey|hello|hi|message\s+(to|for)|to)
        \s*,?\s*(the\s+|any\s+)?{_JUDGES}\s*[:,.!]
    | \b(ignore|disregard|forget|override)\s+((all|any|the|your)\s+){{0,2}}
        (previous|prior|above|earlier|system)\s+(instructions?|rules|guidelines|prompts?|criteria|rubric)
    | \b(give|award|assign|grant)\b[^.\n]{{0,40}}\b(full|maximum|max|perfect|highest|top)\s+
        (marks?|scores?|credit|points|grade|rating)\b
    | \b(solution|code|answer|program|implementation)\s+(deserves|(should|must)\s+(get|receive|pass
        |be\s+(given|awarded|graded|scored|rated|marked|accepted)))\b
    | \bas\s+an?\s+{_JUDGES}[^.\n]{{0,60}}\b(must|should|please|accept|pass)\b
    | \byou\s+are\s+(an?|the)\s+{_JUDGES}
    | <\s*(system|grader|judge|verdict|score)\s*>
    """,
    re.IGNORECASE | re.VERBOSE,
)


def suspicious_texts(program: str, tree: ast.Module | None) -> Iterator[str]:
    """`disables-linter` for marks in comments, `addresses-judge` for words to whoever grades."""
    comments = list(_comments(program)) if "#" in program else []
    if any(map(_LINTER.search, comments)):
        yield "disables-linter"
    texts = comments if tree is None else [*comments, *_strings(tree)]
    # A text of several lines or comments may break a sentence anywhere.
    if any(_TO_A_JUDGE.search(text) for text in (*texts, " ".join(_words(comments)))):
        yield "addresses-judge"


def _comments(program: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(program).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    except (tokenize.TokenError, SyntaxError):
        return  # all before the place that breaks it was seen


def _words(comments: list[str]) -> Iterator[str]:
    return (comment.strip("# \t") for comment in comments)


def _strings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
