"""The pages' scripts outside a page: each ``*.test.mjs`` here imports modules of ``templates/``."""

import shutil
import subprocess
from pathlib import Path

from browser.conftest import require


def test_scripts():
    require(shutil.which("node"), "Debian's nodejs")
    files = Path(__file__).parent.glob("*.test.mjs")
    done = subprocess.run(["node", "--test", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
