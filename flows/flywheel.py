"""The flywheel, from raw logs to a registered model. Reads like a table of contents."""

from prefect import flow

from flows import tasks
from flows.tasks import Source


@flow(name="flywheel", persist_result=True, result_serializer="json")
def flywheel(
    workdir: str = ".", sources: list[Source] | None = None, overrides: list[str] | None = None
) -> dict[str, object]:
    """Run every stage whose inputs have changed, then compare, version and register.

    Args:
        workdir: folder that holds all state of the run.
        sources: logs to land and use from now on; none means those that are there already.
        overrides: `section.key=value`, written to the working folder's `params.yaml`.
    """
    root = tasks.land(workdir, sources or [], overrides or [])
    tasks.ingest(root)
    tasks.validate(root)
    tasks.rewards(root)
    tasks.transitions(root)
    tasks.features(root)
    tasks.train(root)
    tasks.evaluate(root)
    tasks.fetch_champion(root)
    tasks.compare(root)
    tasks.snapshot(root)
    registered = tasks.register(root)
    return tasks.announce(root, registered)
