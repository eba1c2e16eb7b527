"""The proxy's routes as an OpenAPI document."""

from typing import Any, Final

from harness_core.trajectories.vocabulary import Language

_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_HEADERS: Final = (
    ("x-harness-mode", {"type": "string", "enum": ["off", "shadow", "rerank", "filter"]}),
    ("x-harness-k", {"type": "integer", "minimum": 1, "maximum": 16}),
    ("x-harness-budget-ms", {"type": "number", "minimum": 1, "maximum": 60000}),
    ("x-harness-candidate-price", {"type": "number", "minimum": 0, "maximum": 1}),
)
_OBJECT: Final = {"type": "object"}
_HARNESS: Final = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        "task_id": {"type": ["string", "null"], "minLength": 1},
        "session_id": {"type": ["string", "null"]},
        "language": {"type": ["string", "null"], "enum": [*(one.value for one in Language), None]},
        "description": {"type": ["string", "null"]},
        "entry_point": {"type": ["string", "null"]},
        "visible_checks": {"type": "array", "items": {"type": "string"}},
        "generated_checks": {"type": "array", "items": {"type": "string"}},
        "agent": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
        "goal": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
    },
}


def openapi_document(*, has_keys: bool) -> dict[str, Any]:
    """The document; with keys, it says where they are asked for."""
    paths = {
        "/v1/chat/completions": {
            "post": _asks_model(
                "Chat completions, passed on or ranked.",
                ["messages"],
                {"messages": {"type": "array", "items": _OBJECT}},
            )
        },
        "/v1/responses": {
            "post": _asks_model(
                "Responses, passed on or ranked.",
                ["input"],
                {"input": {"type": ["string", "array"]}},
            )
        },
        "/v1/completions": {
            "post": _asks_model(
                "Completions, passed on or ranked.",
                ["prompt"],
                {"prompt": {"type": ["string", "array"]}},
            )
        },
        "/v1/embeddings": {
            "post": _operation(
                "Embeddings, passed on.", body={"type": "object", "required": ["input"]}
            )
        },
        "/v1/models": {"get": _operation("The upstream's models.")},
        "/v1/harness/outcomes": {"post": _outcomes()},
        "/v1/harness/reload": {
            "post": _operation("Look for another model now.", status=202, body=_OBJECT)
        },
        "/healthz": {"get": _operation("The process lives.")},
        "/readyz": {"get": _operation("Requests are answered.")},
        "/metrics": {"get": _operation("Counters for Prometheus.", kind="text/plain")},
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "harness proxy", "version": "1"},
        "paths": paths,
    }
    if has_keys:
        bearer = {"type": "http", "scheme": "bearer"}
        document["components"] = {"securitySchemes": {"key": bearer}}
        for path, methods in paths.items():
            for operation in methods.values():
                if path.startswith("/v1/") or path == "/metrics":
                    operation["security"] = [{"key": []}]
    return document


def _asks_model(summary: str, required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    body = {
        "type": "object",
        "required": ["model", *required],
        "properties": {
            "model": {"type": "string"},
            "n": {"type": "integer", "minimum": 1, "maximum": 16},
            "harness": _HARNESS,
            **properties,
        },
    }
    operation = _operation(summary, body=body)
    operation["parameters"] = [
        {"name": name, "in": "header", "required": False, "schema": schema}
        for name, schema in _HEADERS
    ]
    return operation


def _outcomes() -> dict[str, Any]:
    body = {
        "type": "object",
        "required": ["decision_id", "source"],
        "additionalProperties": False,
        "properties": {
            "decision_id": {"type": "string", "minLength": 1},
            "source": {"type": "string", "minLength": 1},
            "score": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "success": {"type": ["boolean", "null"]},
            "outcome_id": {"type": ["string", "null"], "minLength": 1},
        },
    }
    return _operation("What came of a decision.", status=201, body=body)


def _operation(
    summary: str,
    *,
    status: int = 200,
    body: dict[str, Any] | None = None,
    kind: str = "application/json",
) -> dict[str, Any]:
    content = {kind: {"schema": _OBJECT if kind == "application/json" else {"type": "string"}}}
    error = {"description": "An error.", "content": {"application/json": {"schema": _ERROR}}}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            str(status): {"description": "Done.", "content": content},
            "4XX": error,
            "5XX": error,
        },
    }
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return operation
