"""Runs the code cells of a notebook one after the other, as Jupyter does but without it: notebook.py FILE."""

from __future__ import annotations

import json
import pathlib
import sys

path = pathlib.Path(sys.argv[1])
names = {"__name__": "__main__"}
for number, cell in enumerate(json.loads(path.read_text())["cells"]):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
