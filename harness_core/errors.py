"""Every exception that harness raises on purpose, each with the exit code of the command line.

HarnessError                        1
├── ParameterError                  2   a parameter or argument is wrong
├── DataError                       3   the data cannot be used
│   ├── ImportFormatError           3   too many records of a log could not be read
│   ├── NoDataError                 3   nothing to work on
│   ├── ValidationFailed            3   a critical expectation failed
│   ├── TableSchemaError            3   a table has other columns than its contract
│   ├── LogRewardError              3   a reward cannot be computed from what the log holds
│   ├── CanaryPassed                3   a contradiction was graded as solved, so no verdict counts
│   └── AuditFailed                 3   a cheat earns as much as an honest attempt
├── PromotionRefused                4   the gate kept the champion
├── IsolationUnavailable            5   no sandbox strong enough for untrusted code
├── SandboxError                    1   the sandbox itself broke (never the candidate's fault)
├── ModelError                      1   a model folder cannot be used
│   ├── FeatureSchemaMismatch       1   features of another shape than the model was trained on
│   └── FingerprintMismatch         1   another encoder than the model was trained with
├── DecisionLogError                1   a decision could not be logged
└── RegistryError                   1   the model registry refused or is damaged
"""

from typing import ClassVar


class HarnessError(Exception):
    """Base of all; `exit_code` is what the command line returns."""

    exit_code: ClassVar[int] = 1


class ParameterError(HarnessError):
    """A parameter, an option or an argument is wrong; the message names it and its neighbour."""

    exit_code: ClassVar[int] = 2


class DataError(HarnessError):
    """The data cannot be used as it is."""

    exit_code: ClassVar[int] = 3


class ImportFormatError(DataError):
    """Too many records of a log could not be read."""


class NoDataError(DataError):
    """There is nothing to work on."""


class ValidationFailed(DataError):
    """A critical expectation failed."""


class TableSchemaError(DataError):
    """A table has other columns or types than its contract says."""


class LogRewardError(DataError):
    """A reward cannot be computed from what the log holds."""


class CanaryPassed(DataError):
    """A program was said to pass checks that contradict each other: no verdict counts."""


class AuditFailed(DataError):
    """With the present weights a cheat earns as much as an honest attempt; names the weight."""


class PromotionRefused(HarnessError):
    """The gate kept the champion."""

    exit_code: ClassVar[int] = 4


class IsolationUnavailable(HarnessError):
    """No sandbox strong enough for untrusted code; the message says how to get one."""

    exit_code: ClassVar[int] = 5


class SandboxError(HarnessError):
    """The sandbox itself broke. A failing candidate is data, never this."""


class ModelError(HarnessError):
    """A model folder cannot be used."""


class FeatureSchemaMismatch(ModelError):
    """The features at hand have another shape than those the model was trained on."""

    def __init__(self, *, expected: object, found: object) -> None:
        super().__init__(f"feature schema differs: the model expects {expected}, found {found}")
        self.expected = expected
        self.found = found


class FingerprintMismatch(ModelError):
    """The encoder at hand is not the one that the model was trained with."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(
            f"encoder fingerprint differs: the model was trained with {expected}, found {found}"
        )
        self.expected = expected
        self.found = found


class DecisionLogError(HarnessError):
    """An entry could not be written to the decision log, and was not acknowledged."""


class RegistryError(HarnessError):
    """The model registry refused, or its database is damaged."""
