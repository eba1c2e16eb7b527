"""Dangerous statements in SQL: what drops or alters, changes everything, or leaves the database.

Literals and comments cannot act, except a literal that a statement runs and MySQL's `/*! … */`.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_SQL_CHARS: Final = 200_000
_QUIET: Final = re.compile(
    r"""'(?:[^'\\]|\\(?:.|$)|'')*(?:'|$)|"(?:[^"\\]|\\(?:.|$)|"")*(?:"|$)|`[^`]*(?:`|$)|--[^\n]*|\#[^\n]*|/\*(?!!).*?(?:\*/|$)""",
    re.DOTALL,
)
_RUN_COMMENT: Final = re.compile(r"/\*!\d*|\*/")
_BLOCK: Final = re.compile(r"\$(\w*)\$")
# Where a statement begins inside another one: procedures, blocks, conditions, common tables.
_BEGINNING: Final = re.compile(
    r"(?:^|;|\bBEGIN\b|\bTHEN\b|\bELSE\b|\bDO\b(?!\s+UPDATE)|\bLOOP\b|\bAS\s*\(|\bANALYZE\b|\))\s*\(*\s*"
    r"(DROP|TRUNCATE|ALTER|RENAME|DELETE|UPDATE)\b(?!\s*\()"
)
_FIRST_WORDS: Final = {
    "DROP": "sql-drop",
    "TRUNCATE": "sql-truncate",
    "ALTER": "sql-alter",
    "RENAME": "sql-alter",
}
_CHANGE: Final = re.compile(r"\b(DELETE|UPDATE)\b(.*)", re.DOTALL)
_ANYWHERE: Final = {
    "sql-file": re.compile(
        r"\bINTO\s+(OUT|DUMP)FILE\b|\bLOAD_FILE\s*\(|\bLOAD\s+DATA\b|^\s*COPY\b.*\b(TO|FROM)\s+Q"
        r"|\bPG_(READ|LS)_\w+\s*\(|\bLO_(IM|EX)PORT\s*\(|\bBULK\s+INSERT\b|\bOPENROWSET\s*\("
        r"|\bUTL_FILE\b|^\s*ATTACH\s+DATABASE\b|\bWRITEFILE\s*\(|\bREADFILE\s*\(",
        re.DOTALL,
    ),
    "sql-command": re.compile(
        r"\bXP_(CMDSHELL|REG\w+)\b|^\s*COPY\b.*\b(TO|FROM)\s+PROGRAM\s+Q|\bSYS_(EXEC|EVAL)\s*\(|\bLOAD_EXTENSION\s*\("
        r"|\bSP_OACREATE\b|\bCREATE\s+FUNCTION\b.*\bSONAME\b|\bDBMS_SCHEDULER\b",
        re.DOTALL,
    ),
    "sql-grant": re.compile(
        r"^\s*GRANT\s+ALL\b|^\s*GRANT\b.*\b(WITH\s+(GRANT|ADMIN)\s+OPTION|TO\s+PUBLIC)\b"
        r"|^\s*GRANT\b.*\b(SUPER|DBA|SYSADMIN)\b|^\s*CREATE\s+(USER|ROLE|LOGIN)\b|^\s*SET\s+PASSWORD\b",
        re.DOTALL,
    ),
    "sql-credentials": re.compile(
        r"\b(PG_SHADOW|PG_AUTHID|AUTHENTICATION_STRING|SYS\.USER\$|DBA_USERS|SQL_LOGINS|SYSLOGINS)\b"
        r"|\bMYSQL\.USER\b"
    ),
    "sql-server": re.compile(
        r"^\s*(SHUTDOWN|KILL\b(?!\s*\()|RESET\s+(MASTER|BINARY)|PURGE\s+BINARY)"
        r"|\bPG_TERMINATE_BACKEND\s*\("
    ),
}
_RUNS_TEXT: Final = re.compile(
    r"\b(?:PREPARE\s+\w+\s+FROM|EXEC(?:UTE)?(?:\s+IMMEDIATE)?\s*\(?|SP_EXECUTESQL|CALL\s+\w+\s*\(|SET\s+@\w+\s*:?=)\s*N?"
    r"'((?:[^']|'')*)'",
    re.IGNORECASE,
)
_STRAY_QUOTE: Final = re.compile(r"^[^'\n]{0,200}'\s*\)*\s*;(.*)", re.DOTALL)
_COMPARISON: Final = re.compile(r"\s*([\w.]+)\s*(=|<>|!=|<=|>=|<|>|IS\s+NOT|IS)\s*(-?\s*[\w.]+)\s*")
_OPPOSITE: Final = {"=": "<>", "<": ">=", ">": "<=", "IS": "IS NOT"}
_NO_COLUMNS: Final = frozenset(
    ("AND", "OR", "NOT", "NULL", "TRUE", "FALSE", "IS", "LIKE", "BETWEEN", "IN", "DIV", "MOD")
)
_MAX_DEPTH: Final = 3
_MAX_STATEMENT: Final = 20_000
_MAX_CHANGES: Final = 500


def sql_rules(text: str, *, depth: int = 0) -> Iterator[str]:
    """Ids of the rules that any of the statements breaks, with repetitions."""
    if len(text) > MAX_SQL_CHARS:
        yield "sql-unreadable"
        return
    if depth < _MAX_DEPTH:
        for run in _RUNS_TEXT.finditer(text):
            yield from sql_rules(run[1].replace("''", "'"), depth=depth + 1)
        # An odd quote closes a text around: what follows is where an injection acts.
        stray = _STRAY_QUOTE.match(text) if text.count("'") % 2 else None
        if stray is not None:
            yield from sql_rules(stray[1], depth=depth + 1)
    code = _BLOCK.sub(" ", _RUN_COMMENT.sub(" ", _QUIET.sub(_blank, text))).upper()
    for statement in code.split(";"):
        yield from _statement_rules(statement)


def _blank(match: re.Match[str]) -> str:
    # A quoted piece still stands for one word: `UPDATE "t" SET` must stay three words. Texts that
    # are equal stay equal, so that 'a' = 'a' is seen.
    piece = match[0]
    if piece[0] not in "'\"`":
        return " "
    inside = piece[1:-1].upper()
    if piece[0] == "'":
        return " Q% " if inside.strip("%") == "" and inside else f" Q{_number(inside)} "
    return f" {inside} " if inside.isidentifier() and inside not in _FIRST_WORDS else " QNAME "


def _number(text: str) -> str:
    """A text as a word that has no meaning and is the same for the same text."""
    if text.isdecimal():
        return f"N{int(text) if len(text) < 10 else 1}"  # noqa: PLR2004  # more digits are no zero
    return "T" + text.encode("utf-8", "replace").hex()[:40].upper()


def _statement_rules(statement: str) -> Iterator[str]:
    yield from (rule for rule, pattern in _ANYWHERE.items() if pattern.search(statement))
    words = statement.replace("(", " ").split(maxsplit=2)
    if words[:1] == ["EXPLAIN"] and "ANALYZE" not in statement.split()[1:3]:
        return
    for number, found in enumerate(_BEGINNING.finditer(statement)):
        if number > _MAX_CHANGES:
            yield "sql-unreadable"
            return
        word = found[1]
        if word in _FIRST_WORDS:
            yield _FIRST_WORDS[word]
        else:
            start = found.start(1)
            yield from unlimited_change(statement[start : start + _MAX_STATEMENT])


def unlimited_change(statement: str) -> Iterator[str]:
    """`DELETE` or `UPDATE` without a condition, or with one that is always true."""
    change = _CHANGE.search(statement)
    if change is None:
        return
    rest = _top_level(change[2])
    condition = re.search(r"\bWHERE\b(.*)", rest, re.DOTALL)
    is_bounded = re.search(r"\bLIMIT\s+\d+", rest) or re.search(r"\bTOP\b", rest[:8])
    joined = re.search(r"\b(JOIN|USING)\b", rest)
    # `MERGE … WHEN MATCHED THEN UPDATE SET` names no table and is bounded by what matches.
    if change[1] == "UPDATE" and not re.search(r"^\s*(?!SET\b)\S.*\bSET\b", rest, re.DOTALL):
        return
    if change[1] == "DELETE" and re.match(r"\s*(WHEN\b|$)", rest):
        return
    if condition is None:
        is_all = not is_bounded and not joined
    else:
        is_all = _is_always_true(_condition_text(change[2]), table=_table(change[2]))
    if is_all:
        yield "sql-delete-all" if change[1] == "DELETE" else "sql-update-all"


def _top_level(text: str) -> str:
    """The text up to the bracket that closes around it, brackets inside emptied."""
    depth, kept = 0, []
    for character in text:
        if character == ")":
            if depth == 0:
                break
            depth -= 1
        if depth == 0:
            kept.append(character)
        if character == "(":
            depth += 1
    return "".join(kept)


def _condition_text(text: str) -> str:
    depth = 0
    for found in re.finditer(r"[()]|\bWHERE\b", text):
        if found[0] == "WHERE" and depth == 0:
            return re.split(r"\b(?:ORDER\s+BY|LIMIT|RETURNING)\b", text[found.end() :])[0]
        depth += {"(": 1, ")": -1}.get(found[0], 0)
    return ""


def _table(text: str) -> str:
    named = re.match(r"\s*(?:FROM\s+)?([\w.]+)", text)
    return named[1] if named else ""


def _is_always_true(condition: str, *, table: str, depth: int = 0) -> bool:
    """Whether a condition holds for every row: `1 = 1`, `x = x`, or one of these behind `OR`."""
    condition = _without_brackets(condition)
    if depth > 40:  # noqa: PLR2004  # deeper than anybody writes
        return False
    parts = _split(condition, "OR")
    if len(parts) > 1:
        return _are_complementary(parts) or any(
            _is_always_true(part, table=table, depth=depth + 1) for part in parts
        )
    parts = _split(condition, "AND")
    if len(parts) > 1:
        return all(_is_always_true(part, table=table, depth=depth + 1) for part in parts)
    return _holds(condition.strip(), table=table)


def _holds(atom: str, *, table: str) -> bool:
    if atom.startswith("NOT "):
        return _is_false(atom[4:].strip())
    if _is_false(atom):
        return False
    if _is_constant(atom) or re.fullmatch(r"EXISTS\s*\(\s*SELECT\s+[\w*]+\s*\)", atom):
        return True
    same = re.fullmatch(r"([\w.]+)\s*(=|<=|>=|IS|LIKE)\s*([\w.%]+)", atom)
    if same is not None and (same[1] == same[3] or same[3] == "Q%"):
        return same[2] == "LIKE" or same[3] != "Q%"
    inside = re.fullmatch(r"([\w.]+)\s+IN\s*\(\s*SELECT\s+([\w.]+)\s+FROM\s+([\w.]+)\s*\)", atom)
    return inside is not None and inside[1] == inside[2] and inside[3] == table


def _are_complementary(parts: list[str]) -> bool:
    """`x = 1 OR x <> 1`, `x IS NULL OR x IS NOT NULL`."""
    seen = set()
    for part in parts:
        found = _COMPARISON.fullmatch(_without_brackets(part))
        if found is not None:
            seen.add((found[1], found[2].replace("!=", "<>"), re.sub(r"\s", "", found[3])))
            seen.add((found[1], " ".join(found[2].split()), found[3]))
    return any(
        (name, _OPPOSITE[sign], value) in seen for name, sign, value in seen if sign in _OPPOSITE
    )


def _is_constant(atom: str) -> bool:
    """Whether no column takes part in it, so that it says the same of every row."""
    atom = re.sub(r"\bQ[NT]\w+|\bQ%", "0", atom)
    names = re.findall(r"[A-Z_][\w.]*(?!\w*\s*\()", re.sub(r"[A-Z_]\w*\s*\(", "(", atom))
    return not set(names) - _NO_COLUMNS and not re.search(r"\bQNAME\b|@", atom)


def _is_false(atom: str) -> bool:
    numbers = re.fullmatch(r"(\d+)\s*(=|<|>|<=|>=|<>|!=)\s*(\d+)", _without_brackets(atom))
    if numbers is not None:
        return not _compare(int(numbers[1][:15]), numbers[2], int(numbers[3][:15]))
    return atom in {"FALSE", "0", "NULL", ""}


def _compare(one: int, sign: str, two: int) -> bool:
    results = {"=": one == two, "<": one < two, ">": one > two, "<=": one <= two, ">=": one >= two}
    return results.get(sign, one != two)


def _without_brackets(text: str) -> str:
    """Without the brackets around the whole of it."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and _closes_at_end(text):
        text = text[1:-1].strip()
    return text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return place == len(text) - 1
    return False


def _split(text: str, word: str) -> list[str]:
    """Parts of a condition between `AND` or `OR` that stand in no bracket."""
    depth, start, parts = 0, 0, []
    sign = r"\|\|" if word == "OR" else "&&"
    for found in re.finditer(rf"[()]|\b{word}\b|{sign}", text):
        if found[0] in "()":
            depth += 1 if found[0] == "(" else -1
        elif depth == 0:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]
