"""The tables `transitions` (what the critic learns from) and `candidates` (what is chosen from)."""

from typing import Final

import pyarrow as pa

from harness_core.rewards.table import COMPONENTS

_TASK: Final = [
    pa.field("task_id", pa.string()),
    pa.field("source", pa.string()),
    pa.field("family", pa.string()),
    pa.field("split", pa.string()),
    pa.field("fold", pa.int32()),
]

TRANSITIONS: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        *_TASK,
        pa.field("action_kind", pa.string()),
        pa.field("is_virtual", pa.bool_()),
        *(pa.field(f"reward_{name}", pa.float64()) for name in COMPONENTS),
        pa.field("discount", pa.float64()),
    ]
)
"""One row an action taken, sorted by `trajectory_id, step_index`.

A trajectory of T steps gives the states s_0 … s_T. Row t < T is action t, from s_t to s_(t+1).
When the outcome is known a virtual `submit` row at step_index T carries it (`reward_all_tests`,
`reward_outcome`), so that V(s_T) is the worth of the complete attempt. `discount` is γ, or 0 after
termination; a truncated run without an outcome keeps γ in its last row, since it could have gone
on. `fold` is −1 on test tasks.
"""

CANDIDATES: Final = pa.schema(
    [
        pa.field("group_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("candidate_index", pa.int32()),
        *_TASK,
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("step_candidate", pa.int32()),
        pa.field("is_taken", pa.bool_()),
        pa.field("agent_name", pa.string()),
        pa.field("model", pa.string()),
        pa.field("n_steps", pa.int32()),
        pa.field("n_tokens", pa.int64()),
        pa.field("success", pa.float64()),
        pa.field("dangerous", pa.bool_()),
        pa.field("trusted", pa.bool_()),
        pa.field("propensity", pa.float64()),
    ]
)
"""One row a candidate of a decision group, sorted by `group_id, candidate_index`.

Kind `attempt`: the candidates are complete attempts at one task of one source, `step_index` is the
last step of each, and `success` in [0, 1] is the label (graded where we could, else as logged, null
when unknown). Kind `step`: the candidates of one state of one trajectory (`group_id` is
`trajectory_id:step_index`), `step_candidate` is their `candidate_index` in the rewards table and
`success` their `solved`. Labels must never reach a feature.
"""
