"""Which tool calls an agent may make: a policy file, judged by tool name and arguments.

The first rule with an `effect` that fits a call decides. Every rule with a `scan` that fits has the
danger rules of a language look at arguments, whatever the effect is. A turn with several calls is
judged by the worst of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

import orjson
import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from harness_core.errors import ParameterError
from harness_core.records import Record
from harness_core.rewards.danger import LANGUAGES_WITH_RULES, danger_rules
from harness_core.rewards.tool_calls import ToolCall, calls_of
from harness_core.rewards.tool_patterns import check_pattern, text_matches, value_matches
from harness_core.trajectories.schema import Action
from harness_core.trajectories.vocabulary import ActionKind, Language

Effect = Literal["allow", "needs_review", "deny"]
Pattern = Annotated[str, AfterValidator(check_pattern)]

_BY_SEVERITY: Final[tuple[Effect, ...]] = ("allow", "needs_review", "deny")


def _as_tuple(value: Any) -> Any:
    # Strict validation takes a tuple where JSON, once it went through here, would be a list.
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


class PolicyRule(Record):
    """One rule: which calls it is about, and what becomes of them."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    tool: Annotated[tuple[Pattern, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    """Patterns of the tool's name, one of which must fit; letter case does not count."""
    arguments: dict[str, Pattern] = Field(default_factory=dict)
    """Path of an argument → pattern; all must fit."""
    effect: Effect | None = None
    """None for a rule that only scans."""
    scan: dict[str, Language] = Field(default_factory=dict)
    """Path of an argument → language whose danger rules look at it."""
    reason: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.effect is None and not self.scan:
            raise ValueError("has neither an effect nor a scan; give it one of them")
        for language in self.scan.values():
            if language not in LANGUAGES_WITH_RULES:
                known = ", ".join(sorted(LANGUAGES_WITH_RULES))
                raise ValueError(f"scan: no danger rules for {language.value}; there are {known}")
        return self

    def fits(self, call: ToolCall) -> bool:
        """Whether the rule is about this call. An argument that is not there fits no pattern."""
        if not any(text_matches(one, call.name, ignore_case=True) for one in self.tool):
            return False
        # A number that cannot be read is not known to be small: only permission needs certainty.
        unsure = self.effect != "allow"
        return all(
            any(value_matches(pattern, value, when_unsure=unsure) for value in call.values(path))
            for path, pattern in self.arguments.items()
        )


class PolicyVerdict(NamedTuple):
    """What the policy says of an action."""

    effect: Effect
    rule: str
    """Id of the rule that decided; `default` where none did."""
    reason: str


class ToolPolicy(Record):
    """The rules of a policy file, in their order."""

    version: Literal[1]
    default: Effect
    """What becomes of a call that no rule with an effect fits."""
    rules: tuple[PolicyRule, ...]

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        ids = [rule.id for rule in self.rules]
        doubled = next((name for name in ids if ids.count(name) > 1 or name == "default"), None)
        if doubled is not None:
            raise ValueError(f"rules: the id {doubled!r} is taken; give every rule its own")
        return self

    def judge(self, action: Action) -> PolicyVerdict | None:
        """The verdict on a tool call, the worst of its calls; None for any other action."""
        if action.kind is not ActionKind.TOOL_CALL:
            return None
        verdicts = [self._of_call(call) for call in calls_of(action)]
        return max(verdicts, key=lambda verdict: _BY_SEVERITY.index(verdict.effect))

    def scanned(self, action: Action) -> Iterator[str]:
        """Ids of the danger rules that arguments of a tool call break, with repetitions."""
        for call in calls_of(action) if action.kind is ActionKind.TOOL_CALL else ():
            for rule in self.rules:
                if rule.scan and rule.fits(call):
                    for path, language in rule.scan.items():
                        for text in call.codes(path, language):
                            yield from danger_rules(language, ActionKind.CODE, text)

    def _of_call(self, call: ToolCall) -> PolicyVerdict:
        for rule in self.rules:
            if rule.effect is not None and rule.fits(call):
                return PolicyVerdict(rule.effect, rule.id, rule.reason)
        return PolicyVerdict(self.default, "default", "no rule fits")


ALLOW_ALL: Final = ToolPolicy(version=1, default="allow", rules=())
"""The policy where none is given: every tool call is allowed and none is looked into."""


def action_danger(action: Action, language: Language, policy: ToolPolicy) -> tuple[str, ...]:
    """Ids of all rules that an action breaks, sorted: those of code, and `policy:<rule>`."""
    rules = set(danger_rules(language, action.kind, action.text))
    verdict = policy.judge(action)
    if verdict is not None:
        rules |= set(policy.scanned(action))
        if verdict.effect == "deny":
            rules.add(f"policy:{verdict.rule}")
    return tuple(sorted(rules))


def load_policy(path: Path) -> ToolPolicy:
    """Read a policy file.

    Raises:
        ParameterError: the file is missing or not YAML, or a rule is not as it must be; names the
            file, the line and the rule, and says what to do.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ParameterError(
            f"{path} does not exist; copy the one that ships with harness, or write `version: 1`,"
            " `default: allow`, `rules: []`"
        ) from error
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not UTF-8 text: {error}") from error
    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_doubled_keys(document, path)
        tree = yaml.safe_load(text)
        # Strict validation of JSON still takes lists for tuples and words for enums.
        return ToolPolicy.model_validate_json(orjson.dumps(tree))
    except yaml.YAMLError as error:
        raise ParameterError(f"{path} is not YAML: {error}") from error
    except orjson.JSONEncodeError as error:
        raise ParameterError(f"{path}: keys must be texts: {error}") from error
    except ValidationError as error:
        explained = "; ".join(_explain(item, document, tree) for item in error.errors())
        raise ParameterError(f"{path}: {explained}") from error


def _refuse_doubled_keys(node: yaml.Node | None, path: Path) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_doubled_keys(item, path)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            line = key.start_mark.line + 1
            raise ParameterError(f"{path}: line {line}: the key '{key.value}' stands twice")
        seen.add(key.value)
        _refuse_doubled_keys(value, path)


def _explain(item: Mapping[str, Any], document: yaml.Node | None, tree: Any) -> str:
    location: Sequence[int | str] = item["loc"]
    where = ".".join(str(part) for part in location)
    line = _line_of(location, document)
    name = ""
    if len(location) > 1 and location[0] == "rules" and isinstance(location[1], int):
        rule = tree["rules"][location[1]]
        name = f"rule {rule.get('id') if isinstance(rule, dict) else location[1]!r}: "
        where = ".".join(str(part) for part in location[2:])
    problem = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        model = PolicyRule if name else ToolPolicy
        problem = f"unknown; there are {', '.join(model.model_fields)}"
    elif item["type"] != "value_error":
        problem = f"{problem} (found {item['input']!r})"
    return f"line {line}: {name}{where}{': ' if where else ''}{problem}"


def _line_of(location: Sequence[int | str], node: yaml.Node | None) -> int:
    """The line where the part of the file begins, or the nearest part around that is there."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                return line
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
