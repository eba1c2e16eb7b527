"""Parameters of the registry: the section `registry`."""

from pydantic import Field

from harness_core.records import Section


class RegistryConfig(Section):
    """Names in MLflow."""

    experiment: str = Field(min_length=1)
    model_name: str = Field(min_length=1)
