"""Where things are (`HARNESS_*`). What is run stands in `params.yaml`; this never changes it."""

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Places of one machine, from the environment."""

    model_config = SettingsConfigDict(env_prefix="HARNESS_", frozen=True, extra="ignore")

    workdir: Path = Path()
    """Working folder of a run where `--workdir` is not given."""
