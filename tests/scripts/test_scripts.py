"""The pages' scripts outside a page: each ``*.test.mjs`` here imports modules of ``templates/``."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def test_scripts() -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("REPORTER_REQUIRE_BROWSER") == "1":
            pytest.fail("needs Debian's nodejs")
        pytest.skip("needs Debian's nodejs")
    files = sorted(map(str, Path(__file__).parent.glob("*.test.mjs")))
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
