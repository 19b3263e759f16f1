"""A damaged cache heals in the run that meets it, whatever the file, and the numbers are those of an unharmed one."""

from __future__ import annotations

import pandas as pd
import pytest

NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"
HARMS = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "emptied": lambda whole: b"",
    "flipped": lambda whole: (
        whole[: len(whole) * 3 // 4] + bytes([whole[len(whole) * 3 // 4] ^ 4]) + whole[len(whole) * 3 // 4 + 1 :]
    ),
}
HELD = {
    "observables": "observables/*/text_sums.safetensors",
    "notes": "observables/*/moments.json",
    "facts": "observables/*/facts.json",
    "texts": "texts/*/texts.bin",
    "offsets": "texts/*/offsets.npy",
    "meta": "texts/*/meta.json",
    "tokens": "tokens/*/ids.bin",
    "weights": "models/*/step-*/model.safetensors",
    "config": "models/*/step-*/config.json",
    "record": "models/*/training.json",
    "tokenizer": "models/*/tokenizer/tokenizer.json",
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_was_damaged_is_set_aside_and_made_anew(harm, study, run, store, out, caplog):
    file = study()
    run(file)
    unharmed = store.frame(NUMBERS)
    harmed = []
    for pattern in HELD.values():
        found = sorted((out / "cache").glob(pattern))
        assert found, pattern
        for path in found:
            path.write_bytes(HARMS[harm](path.read_bytes()))
            harmed.append(path)
    store.path.unlink()
    outcome, _ = run(file)
    assert outcome.failed == 0
    pd.testing.assert_frame_equal(unharmed, store.frame(NUMBERS), rtol=1e-9, atol=1e-12)
    for path in harmed:
        named = [path, path.parent]  # a folder goes as a whole
        assert any(f"{one} is damaged and was set aside" in caplog.text for one in named), path
    caplog.clear()
    store.path.unlink()
    outcome, _ = run(file)
    assert outcome.failed == 0 and "damaged" not in caplog.text


def test_a_torn_file_of_unfinished_work_costs_that_work_alone(study, run, store, out, monkeypatch, caplog):
    from reporter.forward import passes
    from reporter.texts import tokens

    monkeypatch.setattr(tokens, "SHARD_TEXTS", 10)
    monkeypatch.setattr(passes, "MOST_SAVING", float("inf"))
    monkeypatch.setattr(passes, "SAVE_EVERY", 0)
    real = passes.measure

    def stop(*args, **kwargs):
        for number, shard in enumerate(real(*args, **kwargs)):
            if number == 2:
                raise KeyboardInterrupt
            yield shard

    file = study()
    with monkeypatch.context() as patch:
        patch.setattr(passes, "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            run(file, only=["dec", "nested"])
    torn = next((out / "cache").glob("observables/*/unfinished-*/shard-*/moments.safetensors"))
    torn.write_bytes(torn.read_bytes()[:-7])
    outcome, said = run(file, only=["dec", "nested"])
    assert outcome.failed == 0 and "going on after" not in said
    assert f"{torn.parent} is damaged" in caplog.text
    resumed = store.frame(NUMBERS)
    store.path.unlink()
    for kept in (out / "cache" / "observables").glob("*/*.json"):
        kept.unlink()
    run(file, only=["dec", "nested"])
    pd.testing.assert_frame_equal(resumed, store.frame(NUMBERS), rtol=1e-9, atol=1e-12)
