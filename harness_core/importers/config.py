"""Parameters of data that enter: the section `ingest`."""

from pydantic import Field

from harness_core.records import Section


class IngestConfig(Section):
    """How raw logs are read."""

    sources: tuple[str, ...]
    """Names of folders below `data/raw/` to read; empty means all of them."""
    max_reject_rate: float = Field(ge=0, le=1)
    """Share of records of one source that may be unreadable before the run stops."""
    max_record_bytes: int = Field(gt=0)
    """A longer line or document is quarantined unread."""
    max_depth: int = Field(gt=0)
    """Nesting of objects and arrays above which a record is quarantined unread."""
    max_generated_checks: int = Field(ge=0)
    """Model-written checks kept for a task, most frequent first."""
    max_controller_share: float = Field(ge=0, le=1)
    """Largest share of trajectories that the controller's own decisions made: it must not learn
    from itself alone. What is too much is left out, by digest."""
