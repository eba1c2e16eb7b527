"""The parts of MLflow that are used, imported without the warnings of its own import.

The only module that imports it (`serve_model` does too, but MLflow itself runs that), and only to
be imported where it is needed: it costs seconds.
"""

import warnings

with warnings.catch_warnings():
    # Its table mapping uses a loader that SQLAlchemy 2.1 has deprecated, and it warns of the type
    # hints of its own classes.
    warnings.filterwarnings("ignore", message="The ``noload`` loader strategy")
    warnings.filterwarnings("ignore", message=".*Any type hint is inferred as AnyType")
    # Not `from mlflow import pyfunc`, which would put the import (and its warnings) off.
    import mlflow.pyfunc as pyfunc  # noqa: PLR0402
    from mlflow import MlflowClient
    from mlflow.entities import (
        Dataset,
        DatasetInput,
        InputTag,
        LoggedModelOutput,
        LoggedModelStatus,
        Metric,
        Param,
        RunTag,
        Span,
        TraceInfo,
        TraceLocation,
        TraceState,
    )
    from mlflow.exceptions import MlflowException
    from mlflow.models import Model, ModelSignature
    from mlflow.store.db import utils as store_schema
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from mlflow.tracing.client import TracingClient
    from mlflow.types.schema import ColSpec, Schema

__all__ = [
    "ColSpec",
    "Dataset",
    "DatasetInput",
    "InputTag",
    "LoggedModelOutput",
    "LoggedModelStatus",
    "Metric",
    "MlflowClient",
    "MlflowException",
    "Model",
    "ModelSignature",
    "Param",
    "RunTag",
    "Schema",
    "Span",
    "SqlAlchemyStore",
    "TraceInfo",
    "TraceLocation",
    "TraceState",
    "TracingClient",
    "pyfunc",
    "store_schema",
]
