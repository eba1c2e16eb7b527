"""The table `rewards`: one nullable column a component, unweighted and unsummed."""

from typing import Final

import pyarrow as pa

from harness_core.rewards.config import RewardWeights

COMPONENTS: Final[tuple[str, ...]] = tuple(RewardWeights.model_fields)
"""Names of the components, in the order of every vector of components."""

OF_A_PROGRAM: Final = ("syntax", "visible_tests", "excess_lines", "style")
"""Components of a program. They are paid as differences to the program before it."""

OF_THE_END: Final = ("all_tests", "outcome")
"""Components of the complete attempt, paid on its last action."""

REWARDS: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("candidate_index", pa.int32()),
        pa.field("is_taken", pa.bool_()),
        *(pa.field(name, pa.float64()) for name in COMPONENTS),
        pa.field("solved", pa.bool_()),
        pa.field("n_hidden_passed", pa.int32()),
        pa.field("n_hidden_total", pa.int32()),
        pa.field("danger_rules", pa.list_(pa.string())),
        pa.field("ends_here", pa.bool_()),
        pa.field("trusted", pa.bool_()),
        pa.field("isolation", pa.string()),
        pa.field("contradicts_log", pa.bool_()),
        pa.field("evidence", pa.string()),
        pa.field("tampered", pa.bool_()),
        pa.field("stateful", pa.bool_()),
        pa.field("suspicions", pa.list_(pa.string())),
        pa.field("policy", pa.string()),
        pa.field("quarantined", pa.bool_()),
    ]
)
"""Key `trajectory_id, step_index, candidate_index`, sorted by it.

A step with logged candidates has a row for each of them, the one taken marked `is_taken`; any
other step has one row with `candidate_index` 0. A component that does not apply to an action is
null, never 0, and null is never learnt from. `solved` is a label: whether this program, submitted,
passes all hidden checks; `all_tests` pays it only on the last action of a trajectory. `isolation`
lists the layers that held ("" where nothing was run); `contradicts_log` says that what we computed
differs from what the log claims. `evidence` says what the verdicts rest on ("compared", "in_box",
"mixed", or "" where nothing was run). `tampered` and `stateful` programs have solved nothing;
`suspicions` are flags that change no pay but that of visible tests (`hard-coded`, `ignores-input`);
`policy` is what the tool policy says of a tool call; `quarantined` marks a task whose checks do not
always say the same, so that none of their verdicts is used.
"""
