"""The tables of features; widths stand in `schema.json` beside them."""

from typing import Final

import pyarrow as pa

from harness_core.records import Record


class FeatureSchema(Record):
    """Names of every column of the three vectors, in order, and what they were made with."""

    state: tuple[str, ...]
    """Ds names: task text | last action block | last observation text | numeric."""
    action: tuple[str, ...]
    """Da names: kind one-hot | action text | structured summary | execution signals."""
    set_relative: tuple[str, ...]
    """Dr names: the candidate within its decision group."""
    encoders: dict[str, str]
    """Text column (`task`, `action`, `program`, `observation`) → fingerprint of its encoder; a
    `program` is an action that can be run, and shares the text block of actions."""
    encoder_tasks: tuple[str, ...] = ()
    """Tasks whose outcomes the encoder was fine-tuned on, sorted: nothing may be judged on them."""
    fingerprint: str
    """One digest of all the above and of the fitted projections and priors."""


def states_schema(width: int) -> pa.Schema:
    """`data/features/states.parquet`: s_0 … s_T of each trajectory (T + 1 rows, T steps)."""
    return pa.schema(
        [
            pa.field("trajectory_id", pa.string()),
            pa.field("step_index", pa.int32()),
            pa.field("state", pa.list_(pa.float32(), width)),
        ]
    )


def actions_schema(width: int) -> pa.Schema:
    """`data/features/actions.parquet`: one row a `rewards` row; virtual submits have none."""
    return pa.schema(
        [
            pa.field("trajectory_id", pa.string()),
            pa.field("step_index", pa.int32()),
            pa.field("candidate_index", pa.int32()),
            pa.field("action", pa.list_(pa.float32(), width)),
        ]
    )


SIGNALS_FILE: Final = "signals.parquet"
SIGNALS: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("candidate_index", pa.int32()),
        pa.field("n_chars", pa.int32()),
        pa.field("text_key", pa.int64()),
        pa.field("answer_key", pa.int64()),
        pa.field("visible_rate", pa.float32()),
        pa.field("generated_passed", pa.list_(pa.bool_())),
        pa.field("outputs", pa.list_(pa.int64())),
        pa.field("made_outputs", pa.list_(pa.int64())),
        pa.field("agent_prior", pa.float32()),
    ]
)
"""`data/features/signals.parquet`: what set-relative features are made of, one row an action.

`text_key`: hash of the normalised text. `answer_key`: hash of the final answer (result text of a
query, final message); 0 when there is none. `visible_rate`: share of visible checks passed, NaN
without any. `generated_passed`: one flag a generated check of the task that was run. `outputs`:
hash of what the program returned on each of the task's inputs, 0 for an error or time-out;
`made_outputs`: the same on inputs that were made from them.
`agent_prior`: out-of-fold success rate of the agent. Nothing here depends on a hidden outcome of
the same task.
"""
