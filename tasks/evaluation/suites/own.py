"""What recipes name to measure an encoder on files of their own."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from tercet.tasks.stage import Config

TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=80)]


class PairColumns(Config):
    """The columns of the two texts and of their score, as those of a corpus of kind scored."""

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
    def _file_alone(cls, given: Any) -> Any:
        return {"source": given} if isinstance(given, str) else given


class RetrievalSource(Config):
    """A folder in BEIR's layout; in a recipe, the folder alone or with its splits."""

    model_config = ConfigDict(json_schema_extra={"type": ["object", "string"]})

    source: str = Field(
        min_length=1, description="A folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."
    )
    dev: str = Field(default="dev", description="The judgements to choose on: qrels/dev.tsv.")
    test: str = Field(default="test", description="The judgements to report: qrels/test.tsv.")

    @model_validator(mode="before")
    @classmethod
    def _folder_alone(cls, given: Any) -> Any:
        return {"source": given} if isinstance(given, str) else given
