import pytest

from tercet.models.english.verbs import forms_of


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("stop", ("stops", "stopping", "stopped", "stopped")),
        ("apply", ("applies", "applying", "applied", "applied")),
        ("write", ("writes", "writing", "wrote", "written")),
        ("permit", ("permits", "permitting", "permitted", "permitted")),
        ("open", ("opens", "opening", "opened", "opened")),
        ("go", ("goes", "going", "went", "gone")),
        ("carry out", ("carries out", "carrying out", "carried out", "carried out")),
        ("have", ("has", "having", "had", "had")),
        ("free", ("frees", "freeing", "freed", "freed")),
        ("unwrap", ("unwraps", "unwrapping", "unwrapped", "unwrapped")),
        ("dispel", ("dispels", "dispelling", "dispelled", "dispelled")),
        ("overfit", ("overfits", "overfitting", "overfitted", "overfitted")),
        ("unbind", ("unbinds", "unbinding", "unbound", "unbound")),
        ("unload", ("unloads", "unloading", "unloaded", "unloaded")),
        ("underfit", ("underfits", "underfitting", "underfitted", "underfitted")),
        ("mimic", ("mimics", "mimicking", "mimicked", "mimicked")),
        ("beat", ("beats", "beating", "beat", "beaten")),
        ("undertake", ("undertakes", "undertaking", "undertook", "undertaken")),
        ("undo", ("undoes", "undoing", "undid", "undone")),
        ("render", ("renders", "rendering", "rendered", "rendered")),
    ],
)
def test_forms_of_verbs(verb: str, forms: tuple[str, ...]) -> None:
    found = forms_of(verb)
    assert (found.third, found.ing, found.past, found.participle) == forms
