"""The short form of a command beside this file; the others take minutes."""

import pytest
from faults import inputs


@pytest.mark.slow
def test_a_thousand_studies_with_mistakes_are_read_or_refused_in_lines_with_a_place(capsys):
    assert inputs.main(1_000, shipped=False) == 0, capsys.readouterr().out
    assert "1000 studies" in capsys.readouterr().out
