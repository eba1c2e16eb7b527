"""Hypothesis strategies for trajectories and tasks: everything that the schema allows."""

from hypothesis import strategies as st

from harness_core.trajectories.schema import (
    Action,
    Agent,
    Candidate,
    Outcome,
    Provenance,
    Step,
    TaskRef,
    TaskSpec,
    Trajectory,
    Usage,
)
from harness_core.trajectories.vocabulary import ActionKind, Language

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6)
WORD = st.text(alphabet="abc/-\u2028é\x00", min_size=1, max_size=6)
UNIT = st.none() | st.floats(0, 1)
FINITE = st.none() | st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.none() | st.integers(0, 2**31 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=2)

TOOL_CALLS = st.builds(lambda name, arguments: {"name": name, "arguments": arguments}, WORD, OBJECT)
ACTIONS = st.builds(
    Action, kind=st.sampled_from(ActionKind), text=TEXT, arguments=OBJECT | TOOL_CALLS
)
USAGES = st.builds(
    Usage,
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    cost_usd=st.none() | st.floats(0, 1e9),
)


@st.composite
def steps(draw: st.DrawFn, index: int) -> Step:
    action = draw(ACTIONS)
    others = draw(st.lists(st.builds(Candidate, action=ACTIONS, propensity=UNIT), max_size=2))
    has_candidates = draw(st.booleans())
    candidates = (*others, Candidate(action=action, propensity=draw(UNIT)))
    return Step(
        index=index,
        observation=draw(TEXT),
        thought=draw(TEXT),
        action=action,
        result=draw(TEXT),
        is_error=draw(st.none() | st.booleans()),
        usage=draw(USAGES),
        logged_reward=draw(FINITE),
        candidates=candidates if has_candidates else (),
        chosen_index=len(others) if has_candidates else draw(st.none() | st.integers(0, 3)),
        propensity=draw(UNIT),
        decision_id=draw(st.none() | TEXT),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    n_steps = draw(st.integers(1, 3))
    terminated = draw(st.booleans())
    return Trajectory(
        task=TaskRef(
            task_id=draw(WORD),
            family=draw(WORD),
            description=draw(TEXT),
            initial_state=draw(TEXT),
        ),
        agent=Agent(name=draw(WORD), version=draw(TEXT), model=draw(TEXT)),
        steps=tuple(draw(steps(index)) for index in range(n_steps)),
        outcome=Outcome(
            success=draw(st.none() | st.booleans()),
            score=draw(FINITE),
            n_tests_passed=draw(COUNT),
            n_tests_total=draw(COUNT),
        ),
        terminated=terminated,
        truncated=not terminated,
        provenance=Provenance(
            importer=draw(WORD),
            source=draw(WORD),
            path=draw(WORD),
            source_sha256="0" * 64,
            line=draw(st.integers(1, 2**40)),
        ),
        extra=draw(OBJECT.filter(lambda extra: "atif" not in extra)),
    )


CHECKS = st.lists(WORD, max_size=3).map(tuple)
TASKS = st.builds(
    TaskSpec,
    task_id=WORD,
    source=WORD,
    family=WORD,
    description=TEXT,
    initial_state=TEXT,
    language=st.sampled_from(Language),
    entry_point=st.none() | WORD,
    visible_checks=CHECKS,
    generated_checks=CHECKS,
    hidden_checks=CHECKS,
    reference=st.none() | TEXT,
)
