"""From trajectories to transitions: (s_t, a_t) → s_(t+1), the discount, and the outcome's own row.

What is paid for the whole attempt (`all_tests`, `outcome`) moves from the last action to a virtual
`submit` behind it, so that V(s_T) is the worth of the complete attempt. A trajectory that ended
with a `submit` of its own needs none; one that a dangerous action ended is never submitted.
"""

from collections.abc import Iterable, Iterator, Mapping

from harness_core.rewards.table import COMPONENTS, OF_THE_END
from harness_core.trajectories.vocabulary import ActionKind
from harness_core.transitions.recorded import Recorded, Row
from harness_core.transitions.splits import Assignment


def transition_rows(
    recorded: Iterable[Recorded], assignments: Mapping[str, Assignment], *, discount_factor: float
) -> Iterator[Row]:
    """The rows of `TRANSITIONS`, in the order of the trajectories."""
    for item in recorded:
        yield from _rows_of(item, item.task_columns(assignments), discount_factor)


def _rows_of(item: Recorded, task: Row, discount_factor: float) -> Iterator[Row]:
    n_steps = item.n_steps_until_end
    taken = item.taken[:n_steps]
    last = taken[-1]
    # An outcome that is known was judged on the attempt as it stood, cut off or not.
    final = {name: last[name] for name in OF_THE_END if last[name] is not None}
    submits_itself = item.steps[-1]["action_kind"] == ActionKind.SUBMIT
    if item.is_dangerous:
        final = {}
    is_over = item.is_cut_short or item.row["terminated"] or bool(final)
    gets_submit = bool(final) and not submits_itself
    for index, row in enumerate(taken):
        is_last = index == n_steps - 1
        paid = {name: row[name] for name in COMPONENTS if name not in OF_THE_END}
        if is_last and submits_itself:
            paid |= final
        ends = is_last and is_over and not gets_submit
        yield _row(
            item,
            task,
            index,
            item.steps[index]["action_kind"],
            paid,
            discount=0.0 if ends else discount_factor,
        )
    if gets_submit:
        yield {
            **_row(item, task, n_steps, ActionKind.SUBMIT.value, final, discount=0.0),
            "is_virtual": True,
        }


def _row(
    item: Recorded, task: Row, step_index: int, kind: str, paid: Row, *, discount: float
) -> Row:
    return {
        "trajectory_id": item.trajectory_id,
        "step_index": step_index,
        **task,
        "action_kind": kind,
        "is_virtual": False,
        **{f"reward_{name}": paid.get(name) for name in COMPONENTS},
        "discount": discount,
    }
