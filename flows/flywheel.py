"""The flywheel, from raw logs to a registered model. Reads like a table of contents."""

from typing import Any

from prefect import flow

from flows import tasks


@flow(name="flywheel", persist_result=True, result_serializer="json")
def flywheel(
    workdir: str = ".",
    sources: list[dict[str, str]] | None = None,
    overrides: list[str] | None = None,
) -> dict[str, Any]:
    """Run every stage whose inputs have changed, then compare, version and register.

    Args:
        workdir: folder that holds all state of the run.
        sources: logs to land and use from now on, each `{"path": …, "format": …}`; none means those
            that are there already.
        overrides: `section.key=value`, written to the working folder's `params.yaml`.
    """
    root = tasks.land(workdir, sources or [], overrides or [])
    tasks.ingest(root)
    tasks.validate(root)
    tasks.rewards(root)
    tasks.audit(root)
    tasks.transitions(root)
    tasks.features(root)
    tasks.train(root)
    tasks.evaluate(root)
    tasks.fetch_champion(root)
    tasks.compare(root)
    tasks.snapshot(root)
    registered = tasks.register(root)
    result: dict[str, Any] = tasks.announce(root, registered)
    return result
