"""Model folders moved as a whole: copied beside the target, verified, then renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness_core.controller.manifest import ModelManifest, read_manifest


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A new folder beside `target` that takes its place when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".tmp-{os.getpid()}-{target.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
        shutil.rmtree(target, ignore_errors=True)
        scratch.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def copy_model(source: Path, target: Path) -> ModelManifest:
    """Copy a model folder in place of `target`, which changes only if the copy is intact.

    Raises:
        ModelError: a file is missing, added or changed.
    """
    with replaced_folder(target) as scratch:
        shutil.copytree(source, scratch, dirs_exist_ok=True)
        return read_manifest(scratch)
