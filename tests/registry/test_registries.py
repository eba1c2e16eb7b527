"""What every registry promises; both implementations pass the same suite."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness_core.errors import ModelError, RegistryError
from harness_core.registry.champion import NONE_MARKER, describe_champion, fetch_champion
from harness_core.registry.local_registry import LocalRegistry
from harness_core.registry.promotion import promote, publish, roll_back
from harness_core.registry.versions import CHALLENGER, CHAMPION, PREVIOUS, ModelRegistry
from harness_core.tables import tree_digest

MakeModel = Callable[..., Path]


@pytest.fixture(params=["local", "mlflow"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> ModelRegistry:
    if request.param == "local":
        return LocalRegistry(tmp_path / "registry")
    from harness_core.registry.mlflow_registry import MlflowRegistry  # noqa: PLC0415  # seconds

    store = request.getfixturevalue("store")
    return MlflowRegistry(store, experiment="tests", model_name="controller")


def test_versions_count_from_one_and_keep_their_tags(
    registry: ModelRegistry, make_model: MakeModel
) -> None:
    first = registry.register(make_model("a"), run_key="k1", tags={"verdict": "keep"})
    second = registry.register(make_model("b"), run_key="k2", tags={})
    assert (first, second) == (1, 2)
    described = registry.describe(1)
    assert described.tags["verdict"] == "keep"
    assert described.tags["run_key"] == "k1"
    assert described.aliases == ()
    assert described.created_at.endswith("+00:00")


def test_a_run_key_is_registered_once(registry: ModelRegistry, make_model: MakeModel) -> None:
    assert registry.register(make_model("a"), run_key="k1", tags={}) == 1
    assert registry.register(make_model("b"), run_key="k1", tags={}) == 1
    assert registry.register(make_model("c"), run_key="k2", tags={}) == 2


def test_a_fetched_model_is_the_one_registered(
    registry: ModelRegistry, make_model: MakeModel, tmp_path: Path
) -> None:
    folder = make_model("a")
    version = registry.register(folder, run_key="k1", tags={})
    target = tmp_path / "fetched"
    target.mkdir()
    (target / "stale").touch()
    registry.fetch(version, target)
    assert tree_digest(target) == tree_digest(folder)


def test_a_damaged_folder_is_not_registered(registry: ModelRegistry, make_model: MakeModel) -> None:
    folder = make_model("a")
    (folder / "weights.safetensors").write_bytes(b"other")
    with pytest.raises(ModelError, match="weights.safetensors is missing, added or changed"):
        registry.register(folder, run_key="k1", tags={})
    with pytest.raises(RegistryError):
        registry.describe(1)


def test_stored_files_that_changed_are_not_fetched_and_the_target_stays(
    registry: ModelRegistry, make_model: MakeModel, tmp_path: Path
) -> None:
    version = registry.register(make_model("a"), run_key="k1", tags={})
    target = make_model("there-before")
    before = tree_digest(target)
    for path in tmp_path.rglob("weights.safetensors"):
        if "models/" not in str(path.relative_to(tmp_path).parent / "") or "mlruns" in path.parts:
            path.write_bytes(b"tampered")
    stored = [p for p in tmp_path.rglob("weights.safetensors") if p.read_bytes() == b"tampered"]
    assert stored
    with pytest.raises(ModelError, match="weights.safetensors"):
        registry.fetch(version, target)
    assert tree_digest(target) == before


def test_an_alias_that_is_not_set_points_nowhere(
    registry: ModelRegistry, make_model: MakeModel
) -> None:
    assert registry.get_alias(CHAMPION) is None
    registry.register(make_model("a"), run_key="k1", tags={})
    assert registry.get_alias(CHAMPION) is None


def test_what_does_not_exist_is_refused(
    registry: ModelRegistry, make_model: MakeModel, tmp_path: Path
) -> None:
    registry.register(make_model("a"), run_key="k1", tags={})
    with pytest.raises(RegistryError):
        registry.describe(7)
    with pytest.raises(RegistryError):
        registry.set_alias(CHAMPION, 7)
    with pytest.raises(RegistryError):
        registry.fetch(7, tmp_path / "fetched")


def test_aliases_move_challenger_first_and_champion_last(
    registry: ModelRegistry, make_model: MakeModel
) -> None:
    moves: list[tuple[str, int]] = []
    recording = _Recording(registry, moves)
    for name in ("a", "b"):
        registry.register(make_model(name), run_key=name, tags={})
    assert publish(recording, 1, is_better=True)
    assert publish(recording, 2, is_better=True)
    assert moves == [
        (CHALLENGER, 1),
        (CHAMPION, 1),
        (CHALLENGER, 2),
        (PREVIOUS, 1),
        (CHAMPION, 2),
    ]
    assert registry.describe(2).aliases == (CHALLENGER, CHAMPION) or registry.describe(
        2
    ).aliases == (CHAMPION, CHALLENGER)


def test_a_worse_model_becomes_the_challenger_only(
    registry: ModelRegistry, make_model: MakeModel
) -> None:
    for name in ("a", "b"):
        registry.register(make_model(name), run_key=name, tags={})
    publish(registry, 1, is_better=True)
    assert not publish(registry, 2, is_better=False)
    assert registry.get_alias(CHAMPION) == 1
    assert registry.get_alias(CHALLENGER) == 2
    assert registry.get_alias(PREVIOUS) is None


def test_promoting_the_champion_again_keeps_the_previous_one(
    registry: ModelRegistry, make_model: MakeModel
) -> None:
    for name in ("a", "b"):
        registry.register(make_model(name), run_key=name, tags={})
    promote(registry, 1)
    promote(registry, 2)
    promote(registry, 2)
    assert registry.get_alias(PREVIOUS) == 1
    assert roll_back(registry) == 1
    assert registry.get_alias(CHAMPION) == 1
    assert registry.get_alias(PREVIOUS) == 2


def test_without_a_previous_champion_there_is_no_way_back(registry: ModelRegistry) -> None:
    with pytest.raises(RegistryError, match="no previous champion"):
        roll_back(registry)


def test_a_crash_before_the_last_move_leaves_the_old_champion_and_a_retry_completes_it(
    registry: ModelRegistry, make_model: MakeModel
) -> None:
    for name in ("a", "b"):
        registry.register(make_model(name), run_key=name, tags={})
    publish(registry, 1, is_better=True)
    with pytest.raises(ConnectionError):
        publish(_Failing(registry), 2, is_better=True)
    assert registry.get_alias(CHAMPION) == 1
    assert publish(registry, 2, is_better=True)
    assert registry.get_alias(CHAMPION) == 2
    assert registry.get_alias(PREVIOUS) == 1


def test_the_champion_folder_follows_the_alias(
    registry: ModelRegistry, make_model: MakeModel, tmp_path: Path
) -> None:
    target = tmp_path / "data" / "champion"
    assert fetch_champion(registry, target) is None
    assert [path.name for path in target.iterdir()] == [NONE_MARKER]
    assert describe_champion(registry) is None
    folder = make_model("a")
    registry.register(folder, run_key="a", tags={})
    promote(registry, 1)
    assert fetch_champion(registry, target) == 1
    assert tree_digest(target) == tree_digest(folder)
    described = describe_champion(registry)
    assert described is not None
    assert described["version"] == 1


def test_an_unchanged_champion_folder_is_left_alone_and_a_damaged_one_mended(
    registry: ModelRegistry, make_model: MakeModel, tmp_path: Path
) -> None:
    target = tmp_path / "champion"
    registry.register(make_model("a"), run_key="a", tags={})
    promote(registry, 1)
    fetch_champion(registry, target)
    before = target.stat().st_ino
    fetch_champion(registry, target)
    assert target.stat().st_ino == before
    (target / "weights.safetensors").write_bytes(b"damaged")
    fetch_champion(registry, target)
    assert (target / "weights.safetensors").read_bytes() == b"a"


class _Recording:
    """A registry that remembers how its aliases were moved."""

    def __init__(self, inner: ModelRegistry, moves: list[tuple[str, int]]) -> None:
        self._inner = inner
        self._moves = moves
        self.get_alias = inner.get_alias
        self.describe = inner.describe
        self.register = inner.register
        self.fetch = inner.fetch

    def set_alias(self, alias: str, version: int) -> None:
        self._moves.append((alias, version))
        self._inner.set_alias(alias, version)


class _Failing(_Recording):
    """A registry that is lost when the champion moves."""

    def __init__(self, inner: ModelRegistry) -> None:
        super().__init__(inner, [])

    def set_alias(self, alias: str, version: int) -> None:
        if alias == CHAMPION:
            raise ConnectionError
        super().set_alias(alias, version)
