"""Nothing of the environment gets into the database, the report, the cache, the log, or what is printed or exported."""

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app


@pytest.mark.report
def test_no_secret_is_written(study, run, out, tmp_path, monkeypatch, caplog):
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "WANDB_API_KEY", "MY_PASSWORD"):
        monkeypatch.setenv(name, "hf_marker")
    file = study(("a dog", "a dog $HF_TOKEN"), ("  enc:", "  gone: {path: ./gone}\n  enc:"), views="[text tokens]")
    outcome, log = run(file, only=["gone", "dec", "inline", "convergence"])
    assert outcome.computed and outcome.failed and outcome.pages
    broken, paper = tmp_path / "broken.yaml", tmp_path / "paper"
    broken.write_text("study: tiny\nmodels: {a: {path: '${HF_TOKEN}'}}\nmetrics: [$HF_TOKEN]\n")
    place = ["--out", str(out)]
    commands = {  # what is printed for others, and the exit code
        ("plan", str(file.path), "--slurm", *place): 0,
        ("plan", str(file.path), *place): 1,  # the folder of one model is gone
        ("answer", "tiny", *place): 0,
        ("export", "tiny", "--figures", "main", "--format", "svg", "--to", str(paper), *place): 0,
        ("export", "tiny", "--single-file", str(paper / "mail.html"), *place): 0,
        ("sql", "SELECT getenv('HF_TOKEN')", *place): 2,
        ("validate", str(broken)): 2,
    }
    for command, code in commands.items():
        result = CliRunner().invoke(app, command)
        assert result.exit_code == code and "hf_marker" not in result.output, (command, result.output)
    files = [path for folder in (out, paper) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 40 and paper / "methods.md" in files
    assert not [path for path in files if b"hf_marker" in path.read_bytes()]
    assert "hf_marker" not in log + caplog.text
