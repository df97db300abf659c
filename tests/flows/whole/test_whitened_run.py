"""A recipe with `whiten`: one more step, whose encoder is measured, exported and described."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tiny_run import Finished, copy_of, ended_well, query, states, tercet

from tercet.flows.commands.export import export
from tercet.models.encoders.encoder import encode, load_encoder


def test_a_whitened_encoder_is_what_a_run_ends_with(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    setting = ("--set", "whiten={dimensions: 20, power: 0.5}")
    done = ended_well(tercet(*finished.tiny.words(store, *setting)))
    made = {step for step, state in states(store).items() if state == "made"}
    assert made == {"whiten", "evaluate.encoder"}
    ((folder,),) = [
        (line.removeprefix("The encoder is in "),)
        for line in done.stdout.splitlines()
        if line.startswith("The encoder is in ")
    ]
    assert "/whiten/" in folder
    ((version, seed),) = query(
        store, "SELECT DISTINCT model_version, seed FROM evaluations WHERE phase = 'encoder'"
    )
    assert version in folder
    assert seed == 7
    spectrum = query(store, "SELECT direction, factor IS NULL FROM whitening ORDER BY direction")
    assert [cut for _, cut in spectrum] == [False] * 20 + [True] * 12

    export("whiten", str(tmp_path / "out"), str(store), None)
    said = capsys.readouterr().out
    assert "trust_remote_code" not in said
    assert "before whitening" not in said
    export("train", str(tmp_path / "before"), str(store), None)
    assert "`tercet export whiten DEST`" in capsys.readouterr().out
    texts = ["a new file is open", "read the old array", "one small red blue index"]
    plain = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    assert plain.shape == (3, 20)
    own = encode(load_encoder(folder), texts, normalise=False)
    assert np.abs(plain - own).max() < 1e-6
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| dimension | 20 |" in card
    assert "| whitened | to 20 directions, to the power 0.5," in card
    assert "| triplets | triplets | gaussian\\_decay (" in card
    assert "Seed: 7." in card


def test_more_dimensions_than_there_are_is_one_sentence(finished: Finished, tmp_path: Path) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    done = tercet(*finished.tiny.words(store, "--set", "whiten={}"))
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "whiten.dimensions is 256, but the encoder's vectors have only 32 numbers" in said
    # It is told before anything runs.
    assert done.stdout == ""


def test_the_last_of_two_phases_names_its_whitening(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    settings = (
        "train.phases=[{name: first, batch_size: 8, max_steps: 2}, "
        "{name: second, batch_size: 8, max_steps: 2}]",
        "whiten={dimensions: 20}",
    )
    words = [word for setting in settings for word in ("--set", setting)]
    ended_well(tercet(*finished.tiny.words(store, *words)))
    for step, said in (("train.first", False), ("train.second", True)):
        export(step, str(tmp_path / step), str(store), None)
        assert ("`tercet export whiten DEST`" in capsys.readouterr().out) == said


def test_the_backbone_alone_can_be_whitened(finished: Finished, tmp_path: Path) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    settings = ("--set", "train.phases=[]", "--set", "whiten={dimensions: 20}")
    done = ended_well(tercet(*finished.tiny.words(store, *settings)))
    assert {step for step, state in states(store).items() if state == "made"} == {
        *("whiten", "evaluate.encoder")
    }
    assert "The encoder is in" in done.stdout
    export("whiten", str(tmp_path / "out"), str(store), None)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| whitened | to 20 directions" in card
    assert "It was whitened, and not trained, from `tiny` with Tercet" in card
    assert "## How it was trained" not in card
