"""The expectations of the interim tables as code. The only module that imports Great Expectations.

Importing it costs five seconds, so the stage does that only when it runs. `critical` stops the run,
`warning` reaches the report. Results keep the format SUMMARY with a few ids: the complete format
would keep every bad row.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from harness_core.validation.config import ValidationConfig
from harness_core.validation.verdicts import ExpectationVerdict

with warnings.catch_warnings():
    # It imports two modules that Python 3.11 has deprecated.
    warnings.filterwarnings("ignore", message="module 'sre_", category=DeprecationWarning)
    import great_expectations as gx
    import great_expectations.expectations as gxe
    from great_expectations.data_context.types.base import ProgressBarsConfig

_N_EXAMPLES: Final = 3
_RESULT_FORMAT: Final = {
    "result_format": "SUMMARY",
    "partial_unexpected_count": _N_EXAMPLES,
    "unexpected_index_column_names": ["id"],
}


def trajectory_suite(config: ValidationConfig) -> gx.ExpectationSuite:
    """What is expected of `trajectory_facts`."""
    return gx.ExpectationSuite(
        name="trajectories",
        expectations=[
            gxe.ExpectTableRowCountToBeBetween(
                min_value=config.min_trajectories,
                severity="critical",
                notes=f"there are at least {config.min_trajectories} trajectories",
            ),
            gxe.ExpectColumnUniqueValueCountToBeBetween(
                column="task_id",
                min_value=config.min_tasks,
                severity="critical",
                notes=f"there are at least {config.min_tasks} tasks with a trajectory",
            ),
            _unique("no trajectory stands twice"),
            _holds("follows_previous", "trajectories are sorted by their id"),
            _holds("ends_exactly_once", "exactly one of terminated and truncated is true"),
            _holds("has_all_steps", "every trajectory has as many steps as it declares"),
            _holds("has_task", "every trajectory has its task"),
            _holds("has_family", "every trajectory has a family"),
            _holds("has_agent", "every trajectory names its agent"),
            _holds("has_provenance", "every trajectory names importer, file digest and line"),
            _holds("extra_is_json", "`extra` is a JSON object"),
            _between("score", "a score lies in [0, 1]", high=1),
            _holds("tests_add_up", "no more tests passed than there are"),
            _holds(
                "outcome_agrees_with_tests",
                "success is logged where all tests passed and nowhere else",
                severity="warning",
            ),
            _rate(
                "outcome_unknown",
                config.max_unknown_outcome_rate,
                "trajectories without a logged outcome or hidden checks",
            ),
        ],
    )


def step_suite(config: ValidationConfig) -> gx.ExpectationSuite:
    """What is expected of `step_facts`."""
    return gx.ExpectationSuite(
        name="steps",
        expectations=[
            _unique("no step stands twice"),
            _holds("has_trajectory", "every step has its trajectory"),
            _holds("follows_previous", "steps are sorted by trajectory and index"),
            _holds("index_is_next", "step indices of a trajectory run 0, 1, 2, … without gaps"),
            _holds("kind_is_known", "an action is of a known kind"),
            _holds("arguments_are_json", "arguments of an action are a JSON object"),
            _holds("chosen_is_a_candidate", "chosen_index names one of the candidates"),
            _holds("chosen_is_the_action", "the chosen candidate is the action taken"),
            _between("propensity", "a propensity lies in [0, 1]", high=1),
            _holds(
                "candidate_propensities_add_up",
                "propensities of candidates lie in [0, 1] and sum to 1 at most",
            ),
            _between("prompt_tokens", "counts of tokens are not negative"),
            _between("completion_tokens", "counts of tokens are not negative"),
            _between("cost_usd", "costs are not negative"),
            _holds("reward_is_finite", "logged rewards are finite"),
            _holds("has_content", "an action that is no intervention has text", severity="warning"),
            _holds("intervention_is_bare", "an intervention has no text", severity="warning"),
            _rate("failed", config.max_error_rate, "steps that failed"),
        ],
    )


def task_suite() -> gx.ExpectationSuite:
    """What is expected of `task_facts`."""
    return gx.ExpectationSuite(
        name="tasks",
        expectations=[
            _unique("no task of a source stands twice"),
            _holds("is_named", "every task has a source and an id"),
            _holds("has_family", "every task has a family"),
            _holds("language_is_known", "the language of a task is known"),
            _holds("checks_are_filled", "no check is empty"),
            _holds("has_description", "every task has a description", severity="warning"),
            _holds(
                "checks_have_entry_point",
                "Python checks come with the name that they call",
                severity="warning",
            ),
            _holds("has_trajectory", "every task was tried", severity="warning"),
        ],
    )


def check_tables(
    facts: Mapping[str, pa.Table], config: ValidationConfig, *, docs_folder: Path
) -> tuple[ExpectationVerdict, ...]:
    """Check the facts of `trajectories`, `steps` and `tasks`, and build Data Docs in a folder."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    _replace_docs_site(context, docs_folder)
    source = context.data_sources.add_pandas("interim")
    verdicts: list[ExpectationVerdict] = []
    for suite in (trajectory_suite(config), step_suite(config), task_suite()):
        asset = source.add_dataframe_asset(suite.name)
        definition = gx.ValidationDefinition(
            name=suite.name,
            data=asset.add_batch_definition_whole_dataframe("all rows"),
            suite=context.suites.add(suite),
        )
        checkpoint = gx.Checkpoint(
            name=suite.name,
            validation_definitions=[context.validation_definitions.add(definition)],
            result_format=_RESULT_FORMAT,
        )
        outcome = context.checkpoints.add(checkpoint).run(
            batch_parameters={"dataframe": facts[suite.name].to_pandas()}
        )
        (result,) = outcome.run_results.values()
        verdicts += [_verdict(suite.name, item) for item in result.results]
    context.build_data_docs()
    return tuple(verdicts)


def _unique(meaning: str) -> gxe.Expectation:
    return gxe.ExpectColumnValuesToBeUnique(column="id", severity="critical", notes=meaning)


def _holds(column: str, meaning: str, *, severity: str = "critical") -> gxe.Expectation:
    return gxe.ExpectColumnValuesToBeInSet(
        column=column, value_set=[True], severity=severity, notes=meaning
    )


def _between(column: str, meaning: str, *, high: float | None = None) -> gxe.Expectation:
    return gxe.ExpectColumnValuesToBeBetween(
        column=column, min_value=0, max_value=high, severity="critical", notes=meaning
    )


def _rate(column: str, limit: float, what: str) -> gxe.Expectation:
    return gxe.ExpectColumnMeanToBeBetween(
        column=column,
        max_value=limit,
        severity="warning",
        notes=f"the share of {what} is {limit:g} at most",
    )


def _replace_docs_site(context: Any, folder: Path) -> None:
    """Write Data Docs to our folder only, not to a temporary one besides."""
    for name in list(context.list_data_docs_sites()):
        context.delete_data_docs_site(name)
    context.add_data_docs_site(
        site_name="local",
        site_config={
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(folder.resolve()),
            },
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        },
    )


def _verdict(table: str, result: Any) -> ExpectationVerdict:
    config, found = result.expectation_config, result.result
    trouble = result.exception_info or {}
    assert not trouble.get("raised_exception"), trouble
    observed, n_unexpected = found.get("observed_value"), found.get("unexpected_count")
    return ExpectationVerdict(
        table=table,
        expectation=config.type,
        column=config.kwargs.get("column"),
        meaning=config.notes,
        severity=config.severity.value,
        passed=bool(result.success),
        n_rows=found.get("element_count"),
        n_unexpected=None if n_unexpected is None else int(n_unexpected),
        observed=None if observed is None else float(observed),
        examples=tuple(str(row["id"]) for row in found.get("partial_unexpected_index_list") or ()),
    )
