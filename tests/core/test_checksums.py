"""Seals: every change of a byte is found, nothing whole is taken for damaged."""

import json
import os
import shutil
from pathlib import Path

import pytest

from reporter.core import checksums as seals


@pytest.fixture
def folder(tmp_path):
    """A sealed folder of two files."""
    made = tmp_path / "made"
    made.mkdir()
    (made / "a.bin").write_bytes(bytes(range(256)))
    (made / "b.bin").touch()
    seals.write_checksums(made)
    return made


def test_a_note_comes_back_with_numbers_as_keys_and_nan_and_what_is_older_is_not_damaged(tmp_path):
    path, value = tmp_path / "note.json", {"losses": {2: 1.5, 10: float("inf")}, "names": ("ä", "\ud800"), "no": None}
    seals.write_note(path, value)
    assert seals.read_note(path) == json.loads(json.dumps(value)) and not seals.is_damaged(path)
    path.write_text('{"version": 3}')  # of an older version, without a checksum
    assert seals.read_note(path) is None and not seals.is_damaged(path)
    assert not seals.is_damaged(tmp_path / "nowhere.json")


def test_every_byte_of_a_note_counts(tmp_path):
    path = tmp_path / "note.json"
    seals.write_note(path, {"version": 3, "size": 17})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for broken in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(broken)
            # A flipped white space may leave the same JSON; whatever else is read is no note.
            assert seals.read_note(path) in (None, {"version": 3, "size": 17}), broken


def flip(file):
    times, content = file.stat(), file.read_bytes()
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
def test_harm_to_a_folder_is_found_and_said_and_of_two_the_last_stays(folder, harm, caplog):
    aside = folder.parent / "damaged-made"
    aside.mkdir()
    (aside / "earlier.bin").touch()
    assert seals.found_intact(folder, "it is made anew")
    HARMS[harm](folder / "a.bin")
    assert not seals.found_intact(folder, "it is made anew")
    assert not folder.exists() and (aside / "b.bin").exists() and not (aside / "earlier.bin").exists()
    assert "is damaged and was renamed to damaged-made; it is made anew" in caplog.text


def test_a_folder_that_was_copied_or_touched_is_whole_and_read_once(folder, tmp_path, monkeypatch):
    copied = shutil.copytree(folder, tmp_path / "copied", copy_function=shutil.copyfile)
    assert seals.found_intact(copied, "")
    monkeypatch.setattr(seals, "sha256", lambda file: pytest.fail(f"{file} is read again"))
    assert seals.found_intact(copied, "")
    assert not seals.found_intact(tmp_path, "") and tmp_path.is_dir()  # without a seal: left alone
