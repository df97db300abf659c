"""Settings of a recipe that measure an encoder on the user's own files."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from tercet.errors import InvalidSetting
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.stage import Config

TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=80)]

# Endings of tables, plain or compressed, as in the readers of corpora. Importing the readers would
# make their code a part of every training's version.
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
COMPRESSIONS = (".gz", ".zst")

# The column with a row's split, and its values for rows that are measured.
SPLIT = "split"
SPLITS: Mapping[str, Split] = {
    "test": "test", "dev": "dev", "val": "dev", "valid": "dev", "validation": "dev",
}  # fmt: skip


class PairColumns(Config):
    """The columns of the two texts and of their score, named as for a corpus of kind scored."""

    anchor: str = Field(description="The first text")
    positive: str = Field(description="The second text")
    label: str = Field(description="The number")


class StsSet(Config):
    """Graded pairs in a file; in a recipe, the file alone or with its columns."""

    model_config = ConfigDict(json_schema_extra={"type": ["object", "string"]})

    source: str = Field(
        min_length=1, description="A table of two texts and a number, or package:PACKAGE/FILE."
    )
    columns: PairColumns | None = Field(
        default=None,
        description="Their columns, in a file without a header by number from 1; null: by the "
        "usual names, or by what they hold.",
    )

    @model_validator(mode="before")
    @classmethod
    def _file_alone(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value


class RetrievalSource(Config):
    """A folder in BEIR's layout or a table of questions; in a recipe, also with its splits."""

    model_config = ConfigDict(json_schema_extra={"type": ["object", "string"]})

    source: str = Field(
        min_length=1,
        description="A folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv; or a table of "
        "questions to the corpora's passages.",
    )
    dev: str = Field(default="dev", description="The judgements to choose on: qrels/dev.tsv.")
    test: str = Field(default="test", description="The judgements to report: qrels/test.tsv.")

    @model_validator(mode="before")
    @classmethod
    def _place_alone(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _splits_of_a_folder(self) -> "RetrievalSource":
        if self.is_table and (self.dev, self.test) != ("dev", "test"):
            raise InvalidSetting(
                "no_effect",
                "dev and test name files of a folder's qrels: leave them out, and write dev or "
                f"test into a column `{SPLIT}` of the table",
            )
        return self

    @property
    def is_table(self) -> bool:
        """Whether the source is a table of questions to the run's passages, not BEIR's folder."""
        name = self.source.lower()
        for ending in COMPRESSIONS:
            name = name.removesuffix(ending)
        return name.endswith(TABLES)
