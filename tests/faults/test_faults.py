"""The short form of a command beside this file; the others take minutes."""

from __future__ import annotations

import pytest
from faults import inputs


@pytest.mark.slow
def test_ten_thousand_studies_with_mistakes_are_read_or_told(capsys):
    assert inputs.main(10_000, shipped=False) == 0, capsys.readouterr().out
    assert "10000 studies" in capsys.readouterr().out
