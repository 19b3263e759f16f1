"""Seals: every change of a byte is found, nothing whole is taken for damaged."""

import json
import os
import shutil
from pathlib import Path

import pytest

from reporter.core import files as seals


@pytest.fixture
def folder(tmp_path):
    """A sealed folder of two files."""
    made = tmp_path / "made"
    made.mkdir()
    (made / "a.bin").write_bytes(bytes(range(256)))
    (made / "b.bin").write_bytes(b"")
    seals.write_checksums(made)
    return made


def test_a_note_comes_back_with_numbers_as_keys_and_nan(tmp_path):
    value = {"losses": {2: 1.5, 10: float("inf")}, "names": ("ä", "\ud800"), "nothing": None}
    seals.write_note(tmp_path / "note.json", value)
    assert seals.read_note(tmp_path / "note.json") == json.loads(json.dumps(value))
    assert not seals.is_damaged(tmp_path / "note.json")


def test_every_byte_of_a_note_counts(tmp_path):
    path = tmp_path / "note.json"
    seals.write_note(path, {"version": 3, "size": 17})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for broken in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(broken)
            # A flipped white space may leave the same JSON; whatever else is read is no note.
            assert seals.read_note(path) in (None, {"version": 3, "size": 17}), broken


def test_what_an_older_version_left_is_no_note_and_not_damaged(tmp_path):
    path = tmp_path / "note.json"
    path.write_text('{"version": 3}')
    assert seals.read_note(path) is None
    assert not seals.is_damaged(path)
    assert not seals.is_damaged(tmp_path / "nowhere.json")


def flip(file):
    times = file.stat()
    content = file.read_bytes()
    file.write_bytes(content[:9] + b"\x00" + content[10:])
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if it had not been touched


HARMS = {
    "flip": flip,
    "truncate": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "grow": lambda file: file.write_bytes(file.read_bytes() + b"x"),
    "remove": Path.unlink,
    "seal": lambda file: (file.parent / seals.SEAL).write_text("{"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_harm_to_a_folder_is_found_and_said(folder, harm, caplog):
    assert seals.found_intact(folder, "it is made anew")
    HARMS[harm](folder / "a.bin")
    assert not seals.found_intact(folder, "it is made anew")
    assert not folder.exists()
    assert (folder.parent / "damaged-made").is_dir()
    assert "is damaged and was renamed to damaged-made; it is made anew" in caplog.text


def test_a_folder_that_was_copied_or_touched_is_whole_and_read_once(folder, tmp_path, monkeypatch):
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied, copy_function=shutil.copyfile)
    assert seals.found_intact(copied, "")
    monkeypatch.setattr(seals, "sha256", lambda file: pytest.fail(f"{file} is read again"))
    assert seals.found_intact(copied, "")


def test_a_folder_without_a_seal_is_left_alone(tmp_path, caplog):
    assert not seals.found_intact(tmp_path, "")
    assert tmp_path.is_dir() and not caplog.text


def test_of_two_that_were_damaged_the_last_stays(folder):
    for content in ("first", "second"):
        folder.mkdir(exist_ok=True)
        (folder / "a.bin").write_text(content)
        (folder / seals.SEAL).write_text("{}")
        assert not seals.found_intact(folder, "")
    assert (folder.parent / "damaged-made" / "a.bin").read_text() == "second"
