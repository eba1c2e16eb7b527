import orjson
import pytest

from harness_core.trajectories.vocabulary import ActionKind, Language
from tests.importers.conftest import ReadFolder

RUN = {
    "problem_id": "p",
    "problem_description": "Do it.",
    "initial_state": "",
    "action_sequence": [{"thought": "t", "code_generated": "x = 1\n", "test_executed": None}],
    "reward": 1.0,
    "terminal": True,
}


@pytest.fixture
def read_runs(tmp_path, read_folder: ReadFolder):
    def read(*runs):
        (tmp_path / "runs.jsonl").write_bytes(b"\n".join(map(orjson.dumps, runs)))
        return read_folder("native", tmp_path)

    return read


def action(**keys):
    return RUN | {"action_sequence": [{"code_generated": "x = 1\n", **keys}]}


def test_the_minimum_of_the_article_is_enough(read_runs):
    imported = read_runs({"problem_id": 3, "problem_description": "d", "action_sequence": [{}]})
    (trajectory,) = imported.trajectories
    assert trajectory.steps[0].action.kind is ActionKind.MESSAGE
    assert trajectory.terminated
    assert imported.tasks["3"].language is Language.TEXT


@pytest.mark.parametrize(
    ("reward", "score", "kept"),
    [(0.0, 0.0, None), (1.0, 1.0, None), (1, 1.0, None), (10.0, None, 10.0), (-5.0, None, -5.0)],
)
def test_a_reward_is_a_score_only_between_0_and_1_and_never_success(read_runs, reward, score, kept):
    (trajectory,) = read_runs(RUN | {"reward": reward}).trajectories
    assert trajectory.outcome.score == score
    assert trajectory.outcome.success is None
    assert trajectory.extra.get("logged_reward") == kept


@pytest.mark.parametrize(
    ("test", "result", "is_claim"),
    [
        (None, "", False),
        (True, "", True),
        ("passed", "", True),
        (" FAILED ", "", True),
        ("f(1) gave 2", "f(1) gave 2", False),
        ({"passed": 1, "total": 3, "output": "no"}, "1 of 3 tests passed\nno", False),
        ({"output": {"b": 1, "a": 2}}, '{"a":2,"b":1}', False),
        (["one", {"output": "two"}], "one\ntwo", False),
    ],
)
def test_what_a_test_said_is_the_result_but_a_bare_claim_is_not(read_runs, test, result, is_claim):
    (trajectory,) = read_runs(action(test_executed=test)).trajectories
    assert trajectory.steps[0].result == result
    assert ("claims" in trajectory.extra) is is_claim


@pytest.mark.parametrize(
    ("keys", "truncated"),
    [
        ({"terminal": True}, False),
        ({"terminal": False}, True),
        ({"terminal": None}, False),
        ({"terminal": None, "truncated": True}, True),
        ({"terminal": True, "truncated": False}, False),
    ],
)
def test_exactly_one_of_terminated_and_truncated_holds(read_runs, keys, truncated):
    (trajectory,) = read_runs(RUN | keys).trajectories
    assert (trajectory.terminated, trajectory.truncated) == (not truncated, truncated)


@pytest.mark.parametrize(
    ("run", "rule_id", "field"),
    [
        (RUN | {"truncated": True}, "N-END", "truncated"),
        (RUN | {"action_sequence": []}, "S-SCHEMA", "steps"),
        (RUN | {"reward": "1.0"}, "S-SCHEMA", "reward"),
        (RUN | {"problem_id": ""}, "S-SCHEMA", "task_id"),
        (RUN | {"success": "yes"}, "S-SCHEMA", "success"),
        (action(kind="dance"), "S-SCHEMA", "action_sequence.0.kind"),
        (action(propensity=1.5), "S-SCHEMA", "propensity"),
        (action(usage={"prompt_tokens": -1}), "S-SCHEMA", "action_sequence.0.usage.prompt_tokens"),
        (
            action(candidates=[{"code_generated": "y"}]),
            "N-CANDIDATES",
            "action_sequence.0.candidates",
        ),
        (action(candidates=[{"code_generated": "y"}], chosen_index=0), "S-SCHEMA", ""),
        ({"problem_id": "p"}, "S-SCHEMA", "problem_description"),
    ],
)
def test_a_wrong_run_is_rejected_with_the_field_named(read_runs, run, rule_id, field):
    imported = read_runs(RUN, run, RUN | {"run": 2})
    assert len(imported.trajectories) == 2
    assert [(reject.rule_id, reject.field, reject.line) for reject in imported.rejects] == [
        (rule_id, field, 2)
    ]


def test_the_first_checks_of_a_task_win_and_others_are_rejected(read_runs):
    checks = {"entry_point": "f", "visible_checks": ["assert f(1)"]}
    imported = read_runs(RUN, RUN | checks, RUN | checks | {"visible_checks": ["assert f(2)"]})
    assert imported.rules == ["N-TASK-CONFLICT"]
    assert imported.rejects[0].field == "visible_checks"
    assert imported.tasks["p"].visible_checks == ("assert f(1)",)


@pytest.mark.parametrize(
    ("given", "task_id", "family"),
    [
        ("HumanEval/03", "HumanEval/3", "humaneval"),
        ("humaneval_3", "HumanEval/3", "humaneval"),
        ("MBPP/12", "mbpp/12", "mbpp"),
        ("../x", "../x", "general"),
    ],
)
def test_tasks_have_one_name_in_all_sources(read_runs, given, task_id, family):
    (trajectory,) = read_runs(RUN | {"problem_id": given}).trajectories
    assert (trajectory.task.task_id, trajectory.task.family) == (task_id, family)


def test_30_unknown_keys_are_kept_and_counted(read_runs):
    run = action(mood=1) | {"colour": "red"}
    imported = read_runs(run)
    assert imported.trajectories[0].extra["unknown"] == {
        "colour": "red",
        "action_sequence.0": {"mood": 1},
    }
    assert imported.tally.warnings == {"N-UNKNOWN-KEY": 1}
