"""Puts the site into a wheel; hatchling runs this file when it builds one, see ``pyproject.toml``.

It takes an environment with reporter's own packages and those of the extra ``docs``, which a release is built in
(``python -m hatchling build`` in that of ``requirements-dev.txt``). Elsewhere, as under ``pip install .``, the wheel
comes without the site, and ``reporter docs`` makes it with the extra ``docs``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Pages(BuildHookInterface):  # type: ignore[misc]
    """Makes the site and has it packed as ``reporter/app/docs/site``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the site, unless the package is installed as a link to its sources."""
        if version == "editable":
            return
        self._place = tempfile.TemporaryDirectory()
        site = Path(self._place.name) / "site"
        code = "import sys, pathlib; from reporter.app.docs.site import build; build(pathlib.Path(sys.argv[1]))"
        command = [sys.executable, "-c", code, str(site)]
        paths = {"PYTHONPATH": os.pathsep.join([self.root, *sys.path])}
        made = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True)
        if made.returncode:
            self.app.display_warning(f"the wheel comes without its documentation: {made.stderr.strip()[-500:]}")
        else:
            build_data["force_include"][str(site)] = "reporter/app/docs/site"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        if version != "editable":
            self._place.cleanup()
