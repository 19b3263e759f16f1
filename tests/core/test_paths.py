"""Paths that others read tell nothing of this machine, and still tell two models apart."""

import re
from pathlib import Path

import pytest

from reporter.core.errors import ReporterError, UsageError, describe, shared, shared_text
from reporter.core.files import as_path, user_cache
from reporter.runs.studies import read_study
from reporter.texts import build_texts
from reporter.texts.sources.stored import DatasetCorpus


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


@pytest.mark.parametrize(
    ("home", "written", "path"),
    [
        ("/home/me", "~/m", "/home/me/m"),
        ("/home/me", "a/~b", "a/~b"),
        ("/home/me", "~no-such-user/m", "the home folder of '~no-such-user' is unknown; write the whole path"),
    ],
)
def test_a_path_that_a_person_wrote(monkeypatch, home, written, path):
    monkeypatch.setenv("HOME", home)
    try:
        assert as_path(written) == as_path(Path(written)) == Path(path)
    except UsageError as error:
        assert str(error) == path


def test_an_unknown_home_folder_is_a_mistake_of_the_study_with_its_line(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "study: s\nmodels: {m: {path: ~no-such-user/m}}\ncorpora: {c: {texts: [a]}}\nmetrics: [motion]\n"
    )
    (tmp_path / "t.yaml").write_text("extends: ~no-such-user/s.yaml\n")
    (tmp_path / "u.yaml").write_text((tmp_path / "s.yaml").read_text() + "plugins: [~no-such-user/p.py]\n")
    for name, place in (("s", ":2:"), ("t", ":1:10: extends"), ("u", ":5:11: plugins[0]")):
        with pytest.raises(UsageError, match=f"{name}.yaml{re.escape(place)}.*the home folder of '~no-such-user'"):
            read_study(tmp_path / f"{name}.yaml")
    with pytest.raises(ReporterError, match="corpus 'd': the home folder of '~no-such-user' is unknown"):
        build_texts("d", DatasetCorpus(dataset="~no-such-user/x"), tmp_path, tmp_path / "cache")


def test_the_cache_of_a_user(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    for named, home, cache in (
        (tmp_path / "c", tmp_path / "h", tmp_path / "c" / "reporter"),
        ("", tmp_path / "h", tmp_path / "h" / ".cache" / "reporter"),
        ("relative", tmp_path / "h", tmp_path / "h" / ".cache" / "reporter"),
        ("", tmp_path / "file", None),
        (tmp_path / "file", tmp_path / "h", None),
        ("", "/proc/no/such", None),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", str(named))
        monkeypatch.setenv("HOME", str(home))
        if cache is None:
            with pytest.raises(ReporterError, match=r"cannot be written \(set XDG_CACHE_HOME to a folder"):
                user_cache()
        else:
            assert user_cache() == cache and cache.is_dir()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", _unknown)
    with pytest.raises(ReporterError, match=r"the home folder of this user is unknown.*; set XDG_CACHE_HOME"):
        user_cache()


def _unknown():
    raise RuntimeError("Could not determine home directory.")
