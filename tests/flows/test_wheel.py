"""Installed from a wheel, without the checkout, the library still works."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.flows.conftest import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """Folder of programs of a fresh environment that holds the wheel.

    Dependencies are read from the environment of the tests, so that nothing is downloaded; harness
    itself is there only as the wheel.
    """
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder)]
    subprocess.run([*build, str(project_root)], check=True, capture_output=True)
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    wheel = next(folder.glob("*.whl"))
    install = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    site = next((environment / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"], encoding="utf-8")
    return environment / "bin"


def _run(installed: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "PATH": f"{installed}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin",
    }
    program = str(installed / command[0])
    return subprocess.run(
        [program, *command[1:]],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )


def test_the_library_comes_from_the_wheel(installed: Path, tmp_path: Path):
    code = "import harness_core; print(harness_core.__file__)"
    done = _run(installed, "python", "-c", code, cwd=tmp_path)
    assert str(installed.parent) in done.stdout


def test_doctor_finds_the_machine_ready(installed: Path, tmp_path: Path):
    done = _run(installed, "harness", "sample", "--set", "sample.n_runs=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"]["n_trajectories"] > 50
    done = _run(installed, "harness", "doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["healthy"]


def test_the_example_of_the_readme_decides(installed: Path, flywheel_run: Run, project_root: Path):
    readme = (project_root / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert len(example.splitlines()) <= 12
    done = _run(installed, "python", "-c", example, cwd=flywheel_run.workdir)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ")
