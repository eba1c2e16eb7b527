"""The two base classes of everything typed: records (data) and sections (parameters)."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """One immutable piece of data. To change one, make another with `model_copy(update=...)`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Section(BaseModel):
    """One section of `params.yaml`: every key known, bounded and required."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
