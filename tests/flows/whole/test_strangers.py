"""Files as people have them: what others left in a store, links in circles, names of any bytes."""

import shutil
from pathlib import Path

import pytest
from good_and_bad import Place, sentence
from strangers import own_folders, strew
from tiny_run import query

COUNTS = "SELECT count(*) AS sentences, (SELECT count(*) FROM artifacts) AS artifacts, \
(SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM run_steps) AS steps FROM sentences"


@pytest.fixture(scope="module")
def strewn(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The place, with a store of its own, in every folder of which others left something."""
    made = Place(tmp_path_factory.mktemp("strewn"), place.backbone)
    for name in ("good.yaml", "notes.txt"):
        shutil.copyfile(place.folder / name, made.folder / name)
    made.goes_on()
    before = made.types("sql", COUNTS, "--store", made.store).stdout
    assert before.splitlines()[2].split() == ["38", "1", "1", "1"]
    for folder in own_folders(made.store):
        strew(made.store, folder)
    after = made.types("sql", COUNTS, "--store", made.store).stdout
    assert after == before
    return made


@pytest.mark.parametrize(
    "words",
    [["ls"], ["ls", "--run", "small"], ["show", "sentences"], ["plan", "good.yaml"],
     ["report"], ["export", "sentences", "rows"], ["tag", "sentences", "mine"],
     ["run", "good.yaml", "--until", "sentences", "--no-server"],
     ["try", "good.yaml", "--method", "negation"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_every_command_works(strewn: Place, words: list[str]) -> None:
    result = strewn.types(*words, "--store", strewn.store)
    assert result.returncode == 0, result.stderr
    assert "conflict" not in result.stdout
    assert " 2" not in result.stdout.split()


@pytest.mark.parametrize(
    "words",
    [["sql", "SELECT 1", "-o", "store/one.csv"], ["sql", "SELECT 1", "-o", "store/runs/one.csv"],
     ["report", "-o", "store/report.html"], ["export", "sentences", "store/artifacts/x"],
     ["export", "sentences", "store/artifacts/ingest/x"],
     ["init", "notes.txt", "-o", "store/r.yaml"],
     ["run", "good.yaml", "--no-server", "--write", "store/tags/r.yaml"],
     ["study", "good.yaml", "--vary", "seed=[1, 2]", "-o", "store/study.html"],
     ["run", "good.yaml", "--no-server", "--store", "store/artifacts/another"]],
    ids=lambda words: " ".join(words)[:40],
)  # fmt: skip
def test_no_command_writes_inside_a_store(place: Place, words: list[str]) -> None:
    def there() -> list[Path]:
        return sorted(path for path in place.store.rglob("*") if path.parts[-2] != "locks")

    before = there()
    more = [] if "--store" in words else ["--store", str(place.store)]
    assert "lies inside the store" in sentence(place.types(*words, *more), 2)
    assert there() == before
    place.goes_on()


@pytest.mark.parametrize("end", ["", "/**/*.txt", "/**"])
def test_each_line_of_a_folder_is_a_row_once(place: Place, tmp_path: Path, end: str) -> None:
    """Whatever its files are called, and however many links lead to them."""
    names = ["plain.txt", "caf\udce9.txt", "deep/\udcff\udcfe.txt", "deep/er/[a] b.txt"]
    for number, name in enumerate(names):
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"The {number} old ships of harbour {n} carry grain." for n in range(10)]
        path.write_text("\n".join(lines) + "\n")
    for place_of, target in (("again", "."), ("deep/up", ".."), ("circle", "circle"),
                             ("gone.txt", "nowhere.txt"), ("other.txt", "plain.txt")):  # fmt: skip
        (tmp_path / "texts" / place_of).symlink_to(target)
    store = tmp_path / "store"
    words = ["run", place.good, "--corpus", f"{tmp_path}/texts{end}", "--until", "sentences"]
    result = place.types(*words, "--no-server", "--store", store)
    assert result.returncode == 0, result.stderr
    counts = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM sentences), \
        (SELECT count(*) FROM rejects), (SELECT count(DISTINCT split_part(path, ':', 1)) \
        FROM documents)"
    assert query(store, counts) == [(40, 40, 0, 4)]
    paths = {row[0] for row in query(store, "SELECT split_part(path, ':', 1) FROM documents")}
    assert {"caf\\xe9.txt", "deep/\\xff\\xfe.txt"} < paths
