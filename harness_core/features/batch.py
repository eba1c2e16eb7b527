"""Feature tables as arrays: decision groups for selection, transitions for the critic.

Letters: K candidates, N transitions, Ds/Da/Dr widths of state, action and set-relative vectors,
C components, I inputs that programs were run on, G generated checks.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from harness_core.trajectories.vocabulary import ActionKind, GroupKind, Split

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNKNOWN_INTERVENTION: Final = -1
N_KINDS: Final = len(ActionKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSignals:
    """What set-relative features of a group are made of; see `features.table.SIGNALS`."""

    n_chars: Floats  # [K]
    text_key: Integers  # [K]
    answer_key: Integers  # [K]; 0 where there is no final answer
    visible_rate: Floats  # [K]; NaN where there is no visible check
    generated_passed: Flags  # [K, G]
    outputs: Integers  # [K, I]; 0 for an error or time-out
    agent_prior: Floats  # [K]; out-of-fold success rate of the agent
    made_outputs: Integers = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    """[K, J] what came back on inputs that were made; 0 for an error or time-out."""

    def __post_init__(self) -> None:
        if not len(self.made_outputs) and len(self.n_chars):
            nothing = np.zeros((len(self.n_chars), 0), dtype=np.int64)
            object.__setattr__(self, "made_outputs", nothing)

    def take(self, index: Integers) -> "GroupSignals":
        """The signals of a subset of candidates."""
        return GroupSignals(
            n_chars=self.n_chars[index],
            text_key=self.text_key[index],
            answer_key=self.answer_key[index],
            visible_rate=self.visible_rate[index],
            generated_passed=self.generated_passed[index],
            outputs=self.outputs[index],
            agent_prior=self.agent_prior[index],
            made_outputs=self.made_outputs[index],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionGroup:
    """The candidates of one state, with their labels beside (never inside) the features."""

    group_id: str
    kind: GroupKind
    task_id: str
    source: str
    family: str
    split: Split
    fold: int
    """Fold of the task, −1 for the frozen test slice."""
    before: Floats  # [K, Ds] state before the candidate's (last) action
    after: Floats  # [K, Ds] state after it; equal to `before` for kind STEP (not executed yet)
    action: Floats  # [K, Da] the candidate's (last) action
    signals: GroupSignals
    n_steps: Integers  # [K]
    n_tokens: Integers  # [K]; 0 where unknown
    success: Floats  # [K] label in [0, 1], NaN when unknown
    dangerous: Flags  # [K] label and hard filter
    is_taken: Flags  # [K]
    trusted: bool
    """False when any label was graded without isolation."""

    @property
    def size(self) -> int:
        """K."""
        return len(self.success)

    def take(self, index: Integers) -> "DecisionGroup":
        """The group of a subset of candidates; set-relative features must be computed anew."""
        return DecisionGroup(
            group_id=self.group_id,
            kind=self.kind,
            task_id=self.task_id,
            source=self.source,
            family=self.family,
            split=self.split,
            fold=self.fold,
            before=self.before[index],
            after=self.after[index],
            action=self.action[index],
            signals=self.signals.take(index),
            n_steps=self.n_steps[index],
            n_tokens=self.n_tokens[index],
            success=self.success[index],
            dangerous=self.dangerous[index],
            is_taken=self.is_taken[index],
            trusted=self.trusted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionArrays:
    """All transitions, ordered by trajectory, then step."""

    trajectory: Integers  # [N] running number of the trajectory
    step_index: Integers  # [N]
    state: Floats  # [N, Ds]
    action: Floats  # [N, Da + Dr]; a virtual submit has its kind and zeros
    next_state: Floats  # [N, Ds]; zeros after termination
    rewards: Floats  # [N, C] unweighted components, NaN where one does not apply
    discount: Floats  # [N]; 0 after termination
    fold: Integers  # [N]; −1 for the frozen test slice
    split: npt.NDArray[np.str_]  # [N]
    task_id: npt.NDArray[np.str_]  # [N]
    intervention: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """[N] place in `ActionKind` of the intervention that the action amounts to, −1 where it is not
    known; arrays made without interventions know none."""
    legal: Flags = field(default_factory=lambda: np.zeros((0, N_KINDS), dtype=np.bool_))
    """[N, kinds] interventions that were legal in the state; none where they are not known."""

    def __post_init__(self) -> None:
        n_rows = len(self.discount)
        if not len(self.intervention):
            unknown = np.full(n_rows, UNKNOWN_INTERVENTION, dtype=np.int64)
            object.__setattr__(self, "intervention", unknown)
        if not len(self.legal):
            object.__setattr__(self, "legal", np.zeros((n_rows, N_KINDS), dtype=np.bool_))
