"""Parameters of distillation: the section `distil`."""

from pydantic import Field

from harness_core.records import Section


class DistilConfig(Section):
    """How a student without a transformer learns from a trained model; the rest is `train`."""

    teacher_weight: float = Field(ge=0, le=1)
    """Share of the teacher's Q in the worth of actions; the rest is what really happened. Attempts
    whose outcome is known keep it. 0 trains on the logs alone."""
    n_text_dimensions: int = Field(ge=2)
    """Dimensions kept of each hashed text vector."""
    hidden_sizes: tuple[int, ...] = Field(min_length=1)
    """Width of each hidden layer of the student."""
    max_gap_loss: float = Field(ge=0, le=1)
    """Share of the gap closed, on the mean of the K up to the headline size, that the student may
    lose and still become champion of its name."""
