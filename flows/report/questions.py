"""Questions of one's own, one by one."""

from tercet.flows.formatting import format_number
from tercet.flows.pages.blocks import Block, Cell, Table
from tercet.flows.report.subject import Subject, of_each_run
from tercet.flows.results.questions import read_questions

# Of very many questions, those at both ends.
_SHOWN = 200


@of_each_run(
    "Questions one by one",
    "The recipe names no questions (`evaluate.retrieval_sets`), or they are not measured yet.",
    "The rank of the best answer to each question among all passages, files or documents: by the "
    "encoder before and after training, by words (BM25), and by BM25 and the trained encoder "
    "together.",
)
def questions(subject: Subject) -> list[Block]:
    """A table of the questions, those that gained most first."""
    answered = read_questions(subject.connection, subject.recipe["seed"])
    if not answered:
        return []
    half = _SHOWN // 2
    shown = answered
    if len(answered) > _SHOWN:
        shown = [*answered[:half], *answered[-half:]]
    rows: list[list[Cell]] = [
        [
            row["query"],
            format_number(row["gain"], 1, sign="+"),
            *(row[way] for way in ("before", "after", "bm25", "both")),
            row["first_after"] if row["after"] != 1 else None,
            row["task"],
        ]
        for row in shown
    ]
    which = "" if shown is answered else f"The first and last {half} of {len(answered):,}. "
    caption = (
        f"{which}Gain: of nDCG@10, in points. A rank that is missing: not among the first 1,000."
    )
    heads = ["question", "gain", "before", "after", "BM25", "both", "came first instead", "set"]
    return [Table(heads, rows, caption, "lrrrrrll")]
