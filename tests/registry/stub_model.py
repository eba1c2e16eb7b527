"""What MLflow serves in the tests: the real answering code around a controller that needs no model.

MLflow loads this file by its path, as it does `serve_model.py`.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow.models
import orjson

from harness_core.errors import ParameterError
from harness_core.registry.serve_model import ServedController


class LongestText:
    """Chooses the longest candidate."""

    def __init__(self, folder: Path) -> None:
        self.weights = (folder / "weights.safetensors").read_text()

    def select(self, state: dict[str, Any], candidates: list[dict[str, Any]], goal: Any) -> Any:
        if not candidates:
            raise ParameterError("candidates: expected at least one")
        lengths = [len(item["text"]) for item in candidates]
        answer = {
            "chosen_index": lengths.index(max(lengths)),
            "weights": self.weights,
            "description": state["description"],
            "goal": goal,
        }
        return SimpleNamespace(model_dump_json=lambda: orjson.dumps(answer).decode())


class StubController(ServedController):
    def load_context(self, context: Any) -> None:
        self._controller = LongestText(Path(context.artifacts["model"]))  # type: ignore[assignment]  # a fake


mlflow.models.set_model(StubController())
