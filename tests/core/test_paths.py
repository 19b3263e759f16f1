"""Paths that others read tell nothing of this machine, and still tell two models apart."""

from pathlib import Path

from reporter.core.errors import ReporterError, describe, shared, shared_text


def test_a_path_is_relative_to_the_study_or_short():
    said = {"models/a": "models/a", "../models/a": "../models/a", "~/a": "~/a", "/mnt/disk/a": "…/a"}
    said |= {"/home/me/studies/models/a": "models/a", "/home/me/models/a": "../models/a"}
    assert {path: shared(path, Path("/home/me/studies")) for path in said} == said


def test_a_page_shows_the_study_but_for_absolute_paths():
    text = 'a: {path: /home/me/m, dtype: x}\nb: {path: "/home/me/m n"}  # and/or http://x/y\nc: /my data/c d.txt # c\n'
    kept = 'a: {path: …/m, dtype: x}\nb: {path: "…/m n"}  # and/or http://x/y\nc: …/c d.txt # c\n'
    assert shared_text(text) == kept
    for plain in ("question: a / b or /c\n", "models: {a: ../m, b: ~/m, c: google-bert/bert}\n", "plugins: [m/n.py]\n"):
        assert shared_text(plain) == plain


def test_what_the_database_says_of_an_error_names_no_folder_of_this_machine(tmp_path):
    file = tmp_path / "deep" / "down" / "texts.csv"
    for error in (ReporterError(f"{file}:3: no row"), FileNotFoundError(2, "No such file", str(file))):
        said = describe(error)
        assert "…/down/texts.csv" in said and str(tmp_path) not in said
    assert describe(ReporterError("a/b and /no-such-folder/x")) == "a/b and /no-such-folder/x"
