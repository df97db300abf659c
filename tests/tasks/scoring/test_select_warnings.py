"""What a warning of `select` names: the keys that set a threshold."""

from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.scoring.select_warnings import threshold_keys


def keys(name: str, **settings: object) -> str:
    return threshold_keys(name, SelectConfig.model_validate(settings).model_dump(mode="json"))


def test_the_general_key_where_no_relation_has_its_own() -> None:
    assert keys("positive_min") == "select.positive_min"
    assert (
        keys("positive_min", relations={"alters": {"negative_max": 1.0}}) == "select.positive_min"
    )


def test_beside_the_general_key_each_that_takes_its_place() -> None:
    relations = {"topic": {"positive_min": 0.2}, "keeps": {"positive_min": 0.5}}
    methods = {"cutoff": {"positive_min": 0.4}, "negation": {"weight": 2.0}}
    assert keys("positive_min", relations=relations, methods=methods) == (
        "select.positive_min (where they count instead, select.relations.topic.positive_min and "
        "select.relations.keeps.positive_min and select.methods.cutoff.positive_min)"
    )
