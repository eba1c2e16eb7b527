"""The shape of the code base: words, sizes, paths that must agree, imports that must stay cheap."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness_core.params import Params
from harness_core.stages.dag import GUIDANCE, POLICY, STAGES
from harness_core.stages.project import pipeline_document

DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
BELOW_FEATURES = [
    "harness_core.params",
    "harness_core.cli",
    "harness_core.tables",
    "harness_core.trajectories.store",
    "harness_core.rewards.compose",
    "harness_core.transitions.builder",
    "harness_core.importers.catalogue",
    "harness_core.simulation.agent",
]


def _modules(root: Path) -> list[Path]:
    return [*sorted((root / "harness_core").rglob("*.py")), *sorted((root / "flows").rglob("*.py"))]


def test_no_module_is_a_drawer(project_root: Path):
    assert not [path for path in _modules(project_root) if path.stem in DRAWERS]


def test_init_files_are_empty_except_the_switches(project_root: Path):
    filled = [
        path.relative_to(project_root)
        for path in _modules(project_root)
        if path.name == "__init__.py" and path.read_text(encoding="utf-8").strip()
    ]
    assert filled == [Path("harness_core/__init__.py")]


def test_every_module_says_what_it_knows(project_root: Path):
    silent = [
        path
        for path in _modules(project_root)
        if path.name != "__init__.py" and not path.read_text(encoding="utf-8").startswith('"""')
    ]
    assert not silent


def test_dvc_yaml_is_the_table_of_stages(project_root: Path):
    written = yaml.safe_load((project_root / "dvc.yaml").read_text(encoding="utf-8"))
    assert written == pipeline_document()


def test_every_section_of_the_parameters_belongs_to_a_stage():
    used = {name for spec in STAGES.values() for name in spec.params}
    assert used == set(Params.model_fields) - {"registry", "calibration", "distil"}


def test_params_yaml_has_the_keys_of_the_typed_tree(project_root: Path, params: Params):
    written = yaml.safe_load((project_root / "params.yaml").read_text(encoding="utf-8"))
    assert written.keys() == Params.model_fields.keys()
    assert params.train.iql.expectile == written["train"]["iql"]["expectile"]


def test_no_two_stages_write_the_same_path():
    outputs = [
        path for spec in STAGES.values() for path in (*spec.outs, *spec.metrics, *spec.plots)
    ]
    assert len(outputs) == len(set(outputs))


def test_a_stage_reads_only_what_an_earlier_one_writes():
    written = {"data/raw", POLICY, GUIDANCE}
    for spec in STAGES.values():
        assert set(spec.deps) <= written
        written |= {*spec.outs, *spec.metrics, *spec.plots}


@pytest.mark.parametrize("module", BELOW_FEATURES)
def test_the_data_half_imports_without_torch_or_a_vendor(module: str):
    heavy = "{'torch', 'mlflow', 'prefect', 'great_expectations', 'lightning', 'transformers'}"
    code = f"import {module}, sys; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_constraints_pin_versions_and_name_no_host(project_root: Path):
    lines = (project_root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 200
    assert all(re.match(r"^[A-Za-z0-9._-]+(\[[a-z,-]+\])?==", line) for line in lines)
    assert not [line for line in lines if "://" in line]
    for excluded in ("lightning==2.6.2", "lightning==2.6.3", "litellm=="):
        assert not [line for line in lines if line.startswith(excluded)]
