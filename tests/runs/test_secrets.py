"""Nothing of the environment gets into the database, the report, the cache, the log, or what is printed or exported."""

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app

SECRETS = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "WANDB_API_KEY", "MY_PASSWORD",
)  # fmt: skip


@pytest.mark.report
def test_no_secret_is_written(study, run, out, tmp_path, monkeypatch, caplog):
    for number, name in enumerate(SECRETS):
        monkeypatch.setenv(name, f"hf_marker{number}secret")
    file = study(("a dog", "a dog $HF_TOKEN"), ("  enc:", "  gone: {path: ./gone}\n  enc:"), views="[words]")
    outcome, log = run(file, only=["gone", "dec", "inline", "convergence"])
    assert outcome.computed and outcome.failed and outcome.pages
    (tmp_path / "broken.yaml").write_text("study: tiny\nmodels: {a: {path: '${HF_TOKEN}'}}\nmetrics: [$HF_TOKEN]\n")
    commands = {  # what is printed for others, and the exit code
        ("plan", str(tmp_path / "tiny.yaml"), "--slurm"): 0,
        ("plan", str(tmp_path / "tiny.yaml")): 1,  # the folder of one model is gone
        ("answer", "tiny"): 0,
        ("export", "tiny", "--figures", "main", "--format", "svg", "--to", str(tmp_path / "paper")): 0,
        ("export", "tiny", "--single-file", str(tmp_path / "paper" / "mail.html")): 0,
        ("sql", "SELECT getenv('HF_TOKEN')"): 2,
        ("validate", str(tmp_path / "broken.yaml")): 2,
    }
    for command, code in commands.items():
        place = [] if command[0] == "validate" else ["--out", str(out)]
        result = CliRunner().invoke(app, [*command, *place])
        assert result.exit_code == code, (command, result.output)
        assert "hf_marker" not in result.output, command
    assert (tmp_path / "paper" / "methods.md").exists()
    files = [path for folder in (out, tmp_path / "paper") for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 40
    for path in files:
        assert b"hf_marker" not in path.read_bytes(), path
    assert "hf_marker" not in log + caplog.text
