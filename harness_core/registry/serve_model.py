"""The code that a served model runs: MLflow loads this file by its path, not by its name.

It answers each row with a decision. `state`, `candidates` and the optional `goal` are JSON texts,
so that every tool that can send a table can ask.
"""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import mlflow.models
import mlflow.pyfunc
import orjson
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from harness_core.errors import ParameterError


class ServedController(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # a vendor's untyped base
    """A controller behind MLflow's scoring protocol."""

    def load_context(self, context: Any) -> None:
        """Open the model folder that was logged."""
        # The controller brings torch; MLflow also imports this file when a model is only logged.
        from harness_core.controller.controller import Controller  # noqa: PLC0415

        self._controller = Controller.load(Path(context.artifacts["model"]))

    # MLflow demands these names, and reads any other annotation of the input as a data schema.
    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> list[str]:  # noqa: ARG002
        """One decision a row, as JSON."""
        rows = model_input.to_dict(orient="records")
        return [self._decide(row) for row in rows]

    def _decide(self, row: Mapping[Hashable, Any]) -> str:
        try:
            state, candidates = orjson.loads(row["state"]), orjson.loads(row["candidates"])
            goal = orjson.loads(row["goal"]) if isinstance(row.get("goal"), str) else None
            return self._controller.select(state, candidates, goal).model_dump_json()
        except (orjson.JSONDecodeError, ParameterError) as error:
            raise MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from error


mlflow.models.set_model(ServedController())
