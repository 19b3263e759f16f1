"""Artifacts: made once, whatever ends the making; damaged ones are made again, and the longest unused go first."""

import os
import threading

import pytest

from reporter.core.artifacts import Artifact, make_room

NAMES = [digit * 32 for digit in "abc"]


@pytest.fixture
def artifact(tmp_path):
    return Artifact(tmp_path / "cache" / NAMES[0], "it is made again")


def filled(text):
    """Return a function that fills a folder, with a file in a folder of its own."""

    def fill(folder):
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text(text)

    return fill


def read(artifact):
    return (artifact.folder / "inner" / "file").read_text()


def test_it_is_made_once_and_again_where_it_is_damaged(artifact, caplog):
    for text, content in (("one", "one"), ("two", "one")):
        assert artifact.made(filled(text), "it") == artifact.folder and read(artifact) == content
    (artifact.folder / "inner" / "file").write_text("broken")
    artifact.made(filled("two"), "it")
    assert read(artifact) == "two" and "was renamed to damaged-" in caplog.text and "it is made again" in caplog.text


def test_an_exception_half_way_leaves_nothing_and_what_has_no_seal_is_replaced(artifact):
    with pytest.raises(KeyboardInterrupt), artifact.filling() as fresh:
        filled("half")(fresh)
        raise KeyboardInterrupt
    assert list(artifact.folder.parent.iterdir()) == []
    filled("older")(artifact.folder.parent)
    (artifact.folder.parent / "inner").rename(artifact.folder)
    artifact.made(filled("new"), "it")
    assert read(artifact) == "new"


def test_who_comes_second_waits_and_the_first_to_finish_is_kept(artifact):
    messages, begun, waits = [], threading.Event(), threading.Event()

    def slow(folder):
        begun.set()
        assert waits.wait(30)
        filled("first")(folder)

    def waiting(text):
        messages.append(text)
        waits.set()

    thread = threading.Thread(target=artifact.made, args=(slow, "it"))
    thread.start()
    assert begun.wait(30)
    artifact.made(filled("second"), "it", waiting)
    thread.join()
    assert read(artifact) == "first" and len(messages) == 1 and messages[0].startswith("  it: waiting for process")
    with artifact.filling() as late:
        filled("late")(late)
    assert read(artifact) == "first" and [path.name for path in artifact.folder.parent.iterdir()] == [NAMES[0]]


def test_the_longest_unused_goes_first_and_what_is_held_or_in_use_or_of_others_stays(tmp_path):
    artifacts = [Artifact(tmp_path / name, "") for name in NAMES]
    for age, artifact in zip((9, 6, 3), artifacts, strict=True):
        artifact.made(filled("x" * 1000), "it")
        os.utime(artifact.folder, (1e9 - age, 1e9 - age))
    (tmp_path / "thesis").mkdir()
    artifacts[0].made(pytest.fail, "it")  # it is used
    assert make_room(tmp_path, 10**6) == []
    with artifacts[1].locked("it"):
        assert make_room(tmp_path, 0, lambda folder: folder == artifacts[0].folder) == [NAMES[2]]
    assert make_room(tmp_path, 0) == [NAMES[1], NAMES[0]]
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"] and make_room(tmp_path / "nowhere", 0) == []
