"""What a recipe may say of a phase, and how it is refused."""

from typing import Any

import pytest
from failures import fails
from pydantic import ValidationError

from tercet.tasks.training.phases import PhaseConfig, unfit
from tercet.tasks.training.train_settings import TrainConfig

NOTHING = {"word_shuffle": 0, "cutoff": 0, "word_repetition": 0, "generated": 0}


def phase(**content: Any) -> PhaseConfig:
    return PhaseConfig.model_validate(content)


def test_a_flat_phase_is_one_part() -> None:
    flat = phase(name="warm", rows="pairs", loss="info_nce", batch_size=8)
    rows, loss = {"from": "pairs"}, {"name": "info_nce"}
    parts = phase(name="warm", batch_size=8, parts=[{"name": "warm", "rows": rows, "loss": loss}])
    assert flat == parts
    (part,) = flat.parts
    assert part.loss == {"name": "info_nce", "tau": 0.05, "head": False}
    assert part.params().model_dump() == {"tau": 0.05, "head": False}
    assert phase().parts[0].loss["name"] == "gaussian_decay"
    assert phase().parts[0].rows.source == "triplets"


def test_a_phase_is_the_same_after_it_was_recorded() -> None:
    given = phase(rows={"from": "anchors", "corpora": ["a"]}, loss={"name": "info_nce", "tau": 0.1})
    assert PhaseConfig.model_validate(given.model_dump(mode="json")) == given


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"loss": "hinge"}, ("parts", 0, "loss")),
        ({"loss": {"name": "info_nce", "width": 0.1}}, ("parts", 0, "loss", "width")),
        ({"loss": {"tau": 0.0}}, ("parts", 0, "loss", "tau")),
        ({"loss": {"head": True}}, ("parts", 0, "loss")),
        ({"loss": 3}, ("parts", 0, "loss")),
        ({"loss": {"name": ["info_nce"]}}, ("parts", 0, "loss")),
        ({"rows": {"from": "anchors", "one_per": "sentence"}}, ("parts", 0, "rows")),
        ({"rows": {"corpora": ["a"], "role": "domain"}}, ("parts", 0, "rows")),
        ({"rows": {"from": "nli", "role": "domain"}}, ("parts", 0, "rows")),
        ({"rows": "pairs", "parts": [{"name": "a"}]}, ()),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, ()),
        ({"parts": [{"name": "a", "share": 0.5}, {"name": "b"}]}, ()),
        ({"parts": [{"name": "a", "share": 0.5}, {"name": "b", "share": 0.3}]}, ()),
        ({"parts": [{"name": "a"}, {"name": "b"}], "batch_size": 3}, ()),
        ({"name": "two words"}, ("name",)),
        # Draws of positives that cannot be.
        ({"loss": "nt_xent", "rows": {"from": "pairs", "draw": {}}}, ("parts", 0, "rows")),
        ({"loss": "nt_xent", "rows": {"from": "anchors", "positive": "half", "draw": {}}},
         ("parts", 0, "rows")),
        ({"loss": "nt_xent", "rows": {"from": "anchors", "draw": NOTHING}},
         ("parts", 0, "rows", "draw")),
    ],
)  # fmt: skip
def test_faults_have_their_place(content: Any, place: tuple[Any, ...]) -> None:
    with pytest.raises(ValidationError) as raised:
        PhaseConfig.model_validate(content)
    assert raised.value.errors()[0]["loc"] == place


def test_a_mini_batch_keeps_no_states_for_a_loss_to_read() -> None:
    loss: dict[str, Any] = {"name": "token_reconstruction"}
    given = {"rows": "anchors", "models": {"frequencies": "counts"}, "batch_size": 64}
    with fails("no_effect", "mini_batch"):
        phase(**given, loss=loss, mini_batch=16)
    # A batch that is encoded at once has them, and without a decoder nothing reads them.
    assert phase(**given, loss=loss, mini_batch=64).mini_batch == 64
    assert phase(**given, loss={**loss, "decoder": False}, mini_batch=16).mini_batch == 16


def test_rows_that_do_not_fit_the_loss() -> None:
    (part,) = phase(rows="pairs").parts
    assert unfit(part, ("anchor", "positive")) is not None
    assert unfit(part, ("anchor", "positive", "negative", "label")) is None


def test_names_of_phases_are_their_own() -> None:
    for names in (("a", "a"), ("seed7",)):
        with pytest.raises(ValidationError):
            TrainConfig.model_validate({"phases": [{"name": name} for name in names]})


def test_a_phase_without_a_length_has_the_trainings() -> None:
    settings = TrainConfig.model_validate(
        {"max_length": 48, "phases": [{"name": "a"}, {"name": "b", "max_length": 16}]}
    )
    assert [phase.max_length for phase in settings.phases] == [48, 16]
    assert TrainConfig.model_validate(settings.model_dump(mode="json")) == settings
