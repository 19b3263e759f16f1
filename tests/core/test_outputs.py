"""What reporter wrote is replaced; what others wrote, and links, stay or are named in an error."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reporter.core.checksums import sha256, write_note
from reporter.core.errors import ReporterError, UsageError
from reporter.core.outputs import LIST, inside, is_untouched, replace_file, replacing, with_checksum


def put(root, within="", alone=False, **files):
    with replacing(root, within, alone=alone) as fresh:
        for name, content in files.items():
            place = fresh / name.replace("__", "/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)


def content(folder):
    """Every file by its path, links by where they lead, without the list of reporter's own files."""
    paths = [path for path in folder.rglob("*") if path.name != LIST and (path.is_symlink() or path.is_file())]
    shown = ((path, str(path.readlink()) if path.is_symlink() else path.read_text()) for path in paths)
    return {path.relative_to(folder).as_posix(): text for path, text in shown}


def test_files_from_before_are_replaced_or_removed_and_files_of_others_stay(tmp_path):
    (tmp_path / "s/data").mkdir(parents=True)
    (tmp_path / "s/data/own").write_text("years")
    (tmp_path / "s/unfinished-thesis").mkdir()
    (tmp_path / "s/unfinished-thesis/own").write_text("years")
    theirs = content(tmp_path)
    put(tmp_path, "s", index="1", data__a="1", old__b="1")
    put(tmp_path, "s", index="2", data__c="2")
    assert content(tmp_path) == theirs | {"s/index": "2", "s/data/c": "2"} and not (tmp_path / "s/old").exists()


def test_an_edited_file_is_kept_under_another_name(tmp_path, caplog):
    put(tmp_path, page="1", stale="1")
    for edited in ("mine", "mine, too"):
        (tmp_path / "page").write_text(edited)
        (tmp_path / "stale").write_text("mine")
        put(tmp_path, page="2")
    assert content(tmp_path) == {"page": "2", "stale": "mine", "page.edited": "mine", "page.edited-2": "mine, too"}
    assert "page was edited since reporter wrote it; the edited file is now page.edited-2" in caplog.text
    before = content(tmp_path)
    os.utime(tmp_path / "page")  # a copy of the folder has other times
    put(tmp_path, page="3")
    assert content(tmp_path) == before | {"page": "3"}


OBSTACLES = {
    "a file of this name": lambda root: (root / "s/page").write_text("mine"),
    "a folder of this name": lambda root: (root / "s/page").mkdir(),
    "a link of this name": lambda root: (root / "s/page").symlink_to(root / "elsewhere/own"),
    "a link to nowhere": lambda root: (root / "s/page").symlink_to("nowhere"),
    "a link on the way": lambda root: (root / "s/data").symlink_to(root / "elsewhere"),
    "a file on the way": lambda root: (root / "s/data").write_text("mine"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("before", [False, True])
def test_what_is_in_the_way_is_named_and_nothing_changes(tmp_path, obstacle, before):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/own").write_text("years")
    (tmp_path / "s").mkdir()
    if before:
        put(tmp_path, "s", other="1")
    OBSTACLES[obstacle](tmp_path)
    theirs = content(tmp_path)
    with pytest.raises(UsageError, match=r"s/(page|data) (was not written by reporter|is a link|is a file)"):
        put(tmp_path, "s", other="2", page="2", data__c="2")
    assert content(tmp_path) == theirs


def test_the_named_folder_may_be_a_link_and_those_inside_may_not(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    put(tmp_path / "out", "s", page="1")
    assert (tmp_path / "disk/s/page").read_text() == "1"
    (tmp_path / "disk/t").symlink_to("s")
    with pytest.raises(UsageError, match="out/t is a link"):
        put(tmp_path / "out", "t", page="2")
    assert (tmp_path / "disk/s/page").read_text() == "1"


def test_a_folder_of_its_own_takes_no_files_of_others(tmp_path):
    put(tmp_path / "tool", alone=True, run="1", more__b="1")
    put(tmp_path / "tool", alone=True, run="2", more__c="2")
    assert content(tmp_path / "tool") == {"run": "2", "more/c": "2"}
    for name in ("synced", "more/synced", "empty/"):
        other = tmp_path / "tool" / name
        other.mkdir() if name.endswith("/") else other.write_text("mine")
        before = content(tmp_path)
        with pytest.raises(UsageError, match=rf"tool/{name.rstrip('/')} was not written by this command"):
            put(tmp_path / "tool", alone=True, run="3")
        assert content(tmp_path) == before
        other.rmdir() if name.endswith("/") else other.unlink()


def test_a_failure_before_the_end_changes_nothing(tmp_path):
    for root in (tmp_path, tmp_path / "new" / "deeper"):
        before = content(tmp_path)
        for error, raised in ((OSError(28, "No space left on device"), ReporterError), (KeyboardInterrupt(), None)):
            with pytest.raises(raised or KeyboardInterrupt), replacing(root) as fresh:
                (fresh / "page").write_text("2")
                raise error
        assert content(tmp_path) == before and not (tmp_path / "new").exists()
        put(tmp_path, page="1")


def test_a_kill_between_two_renames_leaves_nothing_that_looks_edited(tmp_path, monkeypatch):
    put(tmp_path, a="1", b="1", c="1")
    rename, calls = Path.replace, []

    def killed(path, target):
        calls.append(path)
        if path.name == "b":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            put(tmp_path, a="2", b="2", d="2")
    assert content(tmp_path) == {"a": "2", "b": "1", "c": "1"}
    put(tmp_path, a="3", b="3")
    assert content(tmp_path) == {"a": "3", "b": "3"}


def test_a_list_from_a_stranger_removes_nothing_outside(tmp_path):
    own = tmp_path / "own"
    own.write_text("years")
    put(tmp_path / "s", page="1")
    (tmp_path / "s/out").symlink_to(tmp_path)
    state = [own.stat().st_size, own.stat().st_mtime_ns, sha256(own)]
    for number, states in enumerate(([state], "no", [1], [state[:2]])):
        names = ["../own", str(own), "out/own", "a/../../own", "", ".", "\0"]
        write_note(tmp_path / "s" / LIST, {"files": dict.fromkeys(names, states)})
        put(tmp_path / "s", **{f"new{number}": "2"})
        assert own.read_text() == "years"
    (tmp_path / "s" / LIST).write_text("[" * 100_000)
    with pytest.raises(UsageError, match="new3 was not written by reporter"):
        put(tmp_path / "s", new3="3")


def test_several_that_write_one_folder_at_a_time_do_not_meet(tmp_path):
    """What two runs of one study do at their ends; each goes through, and one of them is there as a whole."""

    def write(number):
        for _ in range(10):
            put(tmp_path, "s", a=str(number), data__b=str(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = content(tmp_path)
    assert found.keys() == {"s/a", "s/data/b"} and len(set(found.values())) == 1


def test_a_named_file_is_replaced_only_where_it_is_ours_and_untouched(tmp_path):
    text = with_checksum("a card\n", "<!-- {} -->")
    file = tmp_path / "new" / "card.md"
    for _ in range(2):
        replace_file(file, text.encode(), is_untouched)
    assert file.read_text() == text and text.startswith("<!-- checksum ")
    (tmp_path / "link.md").symlink_to(file)
    (tmp_path / "other.md").write_text("years")
    (tmp_path / "edited.md").write_text(text + "more")
    before = content(tmp_path)
    for name, message in (
        ("link.md", "is a link"),
        ("new", "is a folder"),
        ("other.md", "exists"),
        ("edited.md", "it"),
    ):
        with pytest.raises(UsageError, match=message):
            replace_file(tmp_path / name, b"x", is_untouched)
    assert content(tmp_path) == before


def test_names_from_a_database_stay_inside(tmp_path):
    assert inside(tmp_path, "figures/motion.norm.csv") == tmp_path / "figures/motion.norm.csv"
    for name in ("../x", "a/../../x", "/etc/x", ".reporter.json", "a/.x", "a\\..\\x", "a\0"):
        with pytest.raises(ReporterError, match="cannot be the name of a file"):
            inside(tmp_path, name)
