"""Retrieval sets as folders in BEIR's layout: queries, documents, and judgements.

`corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv`
(query, document, grade; or TREC's four columns), each plain or compressed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tercet.models import seeding
from tercet.models.encoders.settings import Sided
from tercet.models.retrieval import bm25, rankings
from tercet.models.retrieval.rankings import NONE
from tercet.tasks.corpus.sources import tables
from tercet.tasks.corpus.sources.streams import COMPRESSIONS, lines
from tercet.tasks.evaluation.suites.layout import Split, content_digest
from tercet.tasks.evaluation.suites.own import RetrievalSource
from tercet.tasks.evaluation.suites.task import Data, LeftOut, Part, Scores, Task
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

SUITE = "retrieval_sets"
# Ways to rank the documents; the latter two are appended to the name of their set.
ENCODER, BM25, HYBRID = "encoder", "bm25", "hybrid"

# Most bytes of a document, and of a judgement.
_MAX_BYTES, _MAX_LINE = 1 << 26, 1 << 16
_TREC = 4
_ENDS = ("", *COMPRESSIONS)
# Depth of rankings, as is usual with trec_eval; documents whose vectors are in memory at once.
_DEPTH, _BLOCK = 1_000, 16_384


@dataclass(frozen=True)
class RetrievalTask(Task):
    """Queries to be answered from documents.

    documents: title and text, joined as in MTEB. judged: for each query the grades by place in
    `documents`; a judged document that is missing has a place below 0: as in trec_eval it counts as
    relevant and cannot be found. absent: the number of such documents. unjudged: queries of
    `queries.jsonl` without a relevant document in this split, which are not asked.
    units: if documents rank where their best piece does, the place of each piece's document;
    `documents` are then the pieces, and `judged` has places of whole documents.
    vectors: the documents' vectors, in blocks of any size, if they exist already.
    passage_ids: of the documents, if they are passages of a run.
    same_ids: for each query the place of the document with the query's id, which its ranking leaves
    out, or `NONE`; None if there are no such documents.
    """

    name: str
    split: Split
    queries: tuple[str, ...]
    documents: tuple[str, ...]
    judged: tuple[dict[int, int], ...]
    absent: int = 0
    unjudged: int = 0
    units: tuple[int, ...] | None = None
    vectors: Callable[[], Iterable[rankings.Vectors]] | None = None
    passage_ids: tuple[int, ...] | None = None
    same_ids: tuple[int, ...] | None = None
    suite = SUITE

    def texts(self) -> list[str]:
        return [*self.queries, *self.documents]

    def sided_texts(self) -> list[Sided]:
        queries: list[Sided] = [(text, "query") for text in self.queries]
        if self.vectors is not None:
            return queries
        return queries + [(text, "document") for text in self.documents]

    def digest(self) -> str:
        grades = ([f"{place} {grade}" for place, grade in of.items()] for of in self.judged)
        places = [list(map(str, some)) for some in (self.units, self.same_ids) if some is not None]
        return content_digest((self.queries, self.documents, *grades, *places))

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """The measures of each query by vectors, by BM25, and by both (`rankings.fuse`)."""
        near = self.search(encoded)
        worded = self.search_words()
        ways = {
            ENCODER: near[0],
            BM25: worded[0],
            HYBRID: rankings.fuse(near, worded)[0],
        }
        data, queries = self.data(), seeding.text_ids(self.queries)
        return [
            Scores(
                Data(SUITE, self.title_by(way), data.text_form, data.data_digest),
                metric,
                (Part("all", values, queries=queries),),
                fixed=way == BM25,
                ranking=ranking,
            )
            for way, ranking in ways.items()
            for metric, values in self.measure(ranking).items()
        ]

    def title_by(self, way: str) -> str:
        """The task's name among the figures, with documents ranked in this way."""
        by = "" if way == ENCODER else f" {way}"
        return self.name + by + self.title.removeprefix(self.name)

    def measure(self, ranking: rankings.Places) -> dict[str, rankings.Floats]:
        """The measures of each query, of a ranking of `documents`."""
        return rankings.measure(self.rank_units(ranking), self.judged)

    def rank_units(self, ranking: rankings.Places) -> rankings.Places:
        """The ranking of the judged units: documents, or the files that documents are pieces of."""
        if self.units is None:
            return ranking
        return rankings.first_of(ranking, np.array(self.units, dtype=np.int64))

    def search_words(self) -> tuple[rankings.Places, rankings.Scores]:
        """The places of the documents by BM25 and their scores, as deep as `search`."""
        ranking = bm25.search(bm25.build(self.documents), self.queries, self._depth())
        return self._without_same_ids(ranking)

    def search(self, encoded: "Encoded") -> tuple[rankings.Places, rankings.Scores]:
        """The places of the documents by cosine and their cosines, 1,000 deep."""
        blocks: Iterable[rankings.Vectors] = (
            encoded.of(self.documents[start : start + _BLOCK], "document")
            for start in range(0, len(self.documents), _BLOCK)
        )
        if self.vectors is not None:
            blocks = self.vectors()
        return self._without_same_ids(
            rankings.search_vectors(encoded.of(self.queries, "query"), blocks, self._depth())
        )

    def _depth(self) -> int:
        return min(_DEPTH + (self.same_ids is not None), len(self.documents))

    def _without_same_ids(
        self, ranking: tuple[rankings.Places, rankings.Scores]
    ) -> tuple[rankings.Places, rankings.Scores]:
        if self.same_ids is None:
            return ranking
        places, scores = rankings.without(ranking, self.same_ids)
        return places[:, :_DEPTH], scores[:, :_DEPTH]

    def left_out(self) -> list[LeftOut]:
        """Relevant documents that are missing, and queries without any."""
        notes: list[LeftOut] = []
        if self.absent:
            message = (
                f"{self.title}: {self.absent:,} relevant documents are not in corpus.jsonl and "
            )
            notes.append(("no_document", message + "count as not found", None))
        if self.unjudged:
            message = f"{self.title}: {self.unjudged:,} of {self.unjudged + len(self.queries):,} "
            message += (
                f"queries have no relevant document in the split {self.split} and are not asked"
            )
            notes.append(("no_judgement", message, None))
        return notes


def find_retrieval_files(
    sets: Mapping[str, RetrievalSource], splits: Sequence[Split]
) -> dict[str, Path]:
    """The files by their names among a stage's externals. Raises BadInput."""
    return {
        f"{SUITE}/{name}/{inside}": path
        for name, one in sets.items()
        for split in _judged_splits(one, splits)
        for inside, path in beir_files(Path(one.source).expanduser(), getattr(one, split)).items()
    }


def read_retrieval_sets(
    sets: Mapping[str, RetrievalSource], splits: Sequence[Split]
) -> list[RetrievalTask]:
    """A task for each split that a set has, test before dev.

    Raises: BadInput as `read_beir`, and for a set that has none of the splits.
    """
    return [
        read_beir(name, Path(one.source).expanduser(), split, getattr(one, split))
        for name, one in sets.items()
        for split in _judged_splits(one, splits)
    ]


def _judged_splits(one: RetrievalSource, splits: Sequence[Split]) -> list[Split]:
    """The splits that have judgements; if none has, the first, so that its file is reported."""
    order: Sequence[Split] = ("test", "dev")
    ordered = [split for split in order if split in splits]
    qrels = Path(one.source).expanduser() / "qrels"
    judged = [
        split
        for split in ordered
        if any((qrels / f"{getattr(one, split)}.tsv{end}").is_file() for end in _ENDS)
    ]
    return judged or ordered[:1]


def beir_files(folder: Path, judgements: str) -> dict[str, Path]:
    """The three files of a set by their path in the folder, without the compression.

    Raises: BadInput for a missing file, and for one that exists twice.
    """
    files = {}
    for name in ("corpus.jsonl", "queries.jsonl", f"qrels/{judgements}.tsv"):
        paths = [path for end in _ENDS if (path := folder / (name + end)).is_file()]
        if len(paths) > 1:
            raise BadInput(
                "conflict",
                f"{str(folder)!r} holds {paths[0].name} and {paths[1].name}: remove one.",
            )
        if not paths and folder.is_file():
            raise BadInput(
                "missing_file",
                f"{str(folder)!r} is neither a folder in BEIR's layout nor a table of questions "
                "(.csv, .tsv, .jsonl or .parquet): name one of these.",
            )
        if not paths:
            have = sorted(path.name.split(".")[0] for path in (folder / "qrels").glob("*.tsv*"))
            splits = f" (qrels has the splits {', '.join(have)})" if have else ""
            raise BadInput(
                "missing_file",
                f"{name} is missing from the retrieval set {str(folder)!r}{splits}: a folder in "
                "BEIR's layout has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, plain or "
                "compressed.",
            )
        files[name] = paths[0]
    return files


def read_beir(name: str, folder: Path, split: Split, judgements: str) -> RetrievalTask:
    """The queries with relevant documents in `qrels/JUDGEMENTS.tsv`, in `queries.jsonl`'s order.

    Raises: BadInput that names file and line for a line of another form, an id that occurs twice,
        a judged query that is not there, and a split without a relevant document.
    """
    corpus, queries_file, qrels = beir_files(folder, judgements).values()
    documents = _texts(corpus, titled=True)
    place_of = {document: place for place, document in enumerate(documents)}
    queries = _texts(queries_file, titled=False)
    grades: dict[str, dict[int, int]] = {}
    absent: dict[str, int] = {}
    for number, query, document, grade in _judgements(qrels):
        if query not in queries:
            raise BadInput(
                "bad_row",
                f"{qrels}, line {number}: the query {query!r} is not in {queries_file.name}: "
                "add it, or remove the line.",
            )
        place = place_of.get(document)
        if place is None:
            place = absent.setdefault(document, -2 - len(absent))
        grades.setdefault(query, {})[place] = grade
    used = [query for query in queries if any(g > 0 for g in grades.get(query, {}).values())]
    if not used:
        raise BadInput(
            "no_rows", f"{qrels} has no document with a grade above 0, so nothing can be found."
        )
    relevant = {place for query in used for place, grade in grades[query].items() if grade > 0}
    if all(place < 0 for place in relevant):
        raise BadInput(
            "no_rows",
            f"None of the {len(relevant)} relevant documents of {qrels} is in {corpus}: their ids "
            "belong to another corpus.",
        )
    # BEIR leaves out a document with the query's id: in Quora and ArguAna it is the query itself.
    # If it is judged relevant, the ids are equal by chance.
    same_ids = tuple(
        NONE if grades[query].get(place_of.get(query, NONE), 0) > 0 else place_of.get(query, NONE)
        for query in used
    )
    return RetrievalTask(
        name,
        split,
        tuple(queries[query] for query in used),
        tuple(documents.values()),
        tuple(grades[query] for query in used),
        sum(place < 0 for place in relevant),
        len(queries) - len(used),
        same_ids=same_ids if any(place != NONE for place in same_ids) else None,
    )


def _texts(path: Path, titled: bool) -> dict[str, str]:
    """The texts of a file by their ids, in its order; documents with their titles before them."""
    texts: dict[str, str] = {}
    for row in tables.rows(path, _MAX_BYTES):
        where = f"{path}, line {row.number}"
        if row.fault:
            raise BadInput("bad_row", f"{where}: {row.fault[1]}: correct the line or remove it.")
        key, text = row.values.get("_id"), row.values.get("text")
        title = row.values.get("title") if titled else ""
        if isinstance(key, int):
            key = str(key)
        if not isinstance(key, str) or not isinstance(text, str):
            raise BadInput(
                "bad_row", f"{where}: an object with the texts `_id` and `text` is needed."
            )
        if key in texts:
            raise BadInput(
                "bad_row", f"{where}: the id {key!r} occurs a second time: ids must be distinct."
            )
        if not titled and not text.strip():
            raise BadInput("bad_row", f"{where}: the query {key!r} is empty.")
        texts[key] = f"{title or ''} {text}".strip()
    if not texts:
        raise BadInput("no_rows", f"{path} is empty.")
    return texts


def _judgements(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Line, query, document and grade of each judgement, without blank lines and a header."""
    for line in lines(path, _MAX_LINE):
        cells = [cell.strip() for cell in line.text.split("\t")]
        if len(cells) == 1:
            cells = line.text.split()
        if not line.fault and not any(cells):
            continue
        if not line.fault and len(cells) == _TREC:
            cells = [cells[0], *cells[2:]]
        try:
            query, document, grade = cells if not line.fault and all(cells) else []
            judgement = line.number, query, document, int(grade)
        except ValueError:
            if line.number > 1:
                raise BadInput(
                    "bad_row",
                    f"{path}, line {line.number}: query, document and a whole number, separated "
                    f"by tabs, are needed, not {line.text[:80]!r}.",
                ) from None
            continue
        yield judgement
