"""The schema of recipes, and the recipes that ship."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from faulty_recipes import GOOD

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe, json_schema


def test_the_shipped_schema_is_the_models_own() -> None:
    shipped = Path(recipe_file.find("quickstart")).with_name("recipe.schema.json")
    assert json.loads(shipped.read_text(encoding="utf-8")) == json_schema()


def test_shipped_recipes_hold_against_the_schema() -> None:
    for name in recipe_file.shipped():
        content = yaml.safe_load(recipe_file.find(name).read_text(encoding="utf-8"))
        jsonschema.validate(content, json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "sampel": {}}, json_schema())


@pytest.mark.parametrize("name", recipe_file.shipped())
def test_a_recipe_is_the_same_after_it_was_recorded(name: str) -> None:
    """As a run records it."""
    recipe = recipe_file.load(name)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


def test_the_schema_has_each_loss_with_its_parameters() -> None:
    schema = json_schema()
    assert {"name", "tau", "sigma_cosine", "gate"} <= set(
        schema["$defs"]["Loss_gaussian_decay"]["properties"]
    )
    good = yaml.safe_load(GOOD)
    for phase in (
        {"loss": "info_nce"},
        {"loss": {"name": "info_nce", "tau": 0.1}, "rows": {"from": "anchors", "max_rows": 3}},
        {"parts": [{"name": "a", "loss": {"name": "gaussian_decay", "sigma_cosine": 0}}]},
    ):
        jsonschema.validate({**good, "train": {"phases": [phase]}}, schema)
    for phase in ({"loss": "hinge"}, {"loss": {"name": "info_nce", "width": 0.1}}, {"tau": 0.1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, "train": {"phases": [phase]}}, schema)


def test_a_recipe_is_checked_without_torch() -> None:
    script = (
        "import sys\n"
        "from tercet.flows.recipe.file import load, shipped\n"
        "for name in shipped(): load(name)\n"
        "heavy = ('torch', 'transformers', 'sentence_transformers', 'prefect')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
