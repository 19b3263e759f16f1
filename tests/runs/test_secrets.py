"""Nothing of the environment gets into the database, the report, the cache or the log."""

from __future__ import annotations

import pytest

SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "MY_PASSWORD")


@pytest.mark.report
def test_no_secret_is_written(study, run, out, monkeypatch, caplog):
    for number, name in enumerate(SECRETS):
        monkeypatch.setenv(name, f"hf_marker{number}secret")
    outcome, said = run(study(("a dog", "a dog $HF_TOKEN"), ("  enc:", "  gone: {path: ./gone}\n  enc:")))
    assert outcome.computed and outcome.failed and outcome.pages
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 50
    for path in files:
        assert b"hf_marker" not in path.read_bytes(), path
    assert "hf_marker" not in said + caplog.text
