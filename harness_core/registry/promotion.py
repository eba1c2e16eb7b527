"""The order in which aliases move. The champion moves last and is read back.

A crash before that leaves the old champion in use; running again completes the move.
"""

from harness_core.errors import RegistryError
from harness_core.registry.versions import CHALLENGER, CHAMPION, PREVIOUS, ModelRegistry


def publish(registry: ModelRegistry, version: int, *, is_better: bool) -> bool:
    """Make a version the challenger and, if it is better, the champion.

    Returns:
        Whether the version is the champion now.
    """
    registry.set_alias(CHALLENGER, version)
    if is_better:
        promote(registry, version)
    return registry.get_alias(CHAMPION) == version


def promote(registry: ModelRegistry, version: int) -> None:
    """Make a version the champion; the champion before it becomes `previous`.

    Raises:
        RegistryError: there is no such version, or the registry did not keep what it was told.
    """
    registry.describe(version)
    champion = registry.get_alias(CHAMPION)
    if champion == version:
        return
    if champion is not None:
        registry.set_alias(PREVIOUS, champion)
    registry.set_alias(CHAMPION, version)
    found = registry.get_alias(CHAMPION)
    if found != version:
        raise RegistryError(f"the champion should be version {version} now, but is {found}")


def roll_back(registry: ModelRegistry) -> int:
    """Swap champion and previous; return the version in use again.

    Raises:
        RegistryError: no previous champion is known.
    """
    previous = registry.get_alias(PREVIOUS)
    if previous is None:
        raise RegistryError("there is no previous champion to go back to")
    promote(registry, previous)
    return previous
