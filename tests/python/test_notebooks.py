"""The notebooks of examples/notebooks run from beginning to end."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(notebook, language_folder, tmp_path):
    missing = [
        name
        for name in json.loads(notebook.read_text())["metadata"]["detent"]["needs"]
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"{notebook.name} needs the packages {', '.join(missing)}")
    runner = pathlib.Path(__file__).parent / "notebook.py"
    done = subprocess.run(
        [sys.executable, runner, notebook],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "DETENT_MODEL": str(language_folder)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
