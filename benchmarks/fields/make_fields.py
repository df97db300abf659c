"""Build five fields from pinned packages: three folders of documents and two tables.

    python make_fields.py TARGET

It needs Debian 12 (amd64) with its package lists (`apt-get update`) and npm. Each folder gets
`docs/` and `questions.csv`, whose files are relative to `docs/`; each table gets `texts.csv` and,
apart from it, `groups.csv`. The questions lie beside this script, in `questions/`.
"""

import csv
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

HTTPD = "apache2-doc=2.4.68-1~deb12u1"
HANDBOOK = "debian-handbook=11.20220922"
FORTUNES = ("fortunes=1:1.99.1-7.3", "fortunes-min=1:1.99.1-7.3")
BUN = "bun-types@1.2.10"
# Left out of the manual: pages for its developers and for single platforms, and the longest pages
# of modules.
HTTPD_WITHOUT = {"developer", "platform"}
MODULE_BYTES = 30_000
# Left out of Bun's documentation: pages about databases.
BUN_WITHOUT = {"api/sql.md", "api/sqlite.md", "api/redis.md"}
# Left out of the fortunes: files without a subject, and those that offend.
FORTUNES_WITHOUT = {"cookie", "miscellaneous", "drugs", "ethnic", "men-women"}
FORTUNE_CHARACTERS = 300
SECTION_ROWS = 200
GROUP_ROWS = 30

Row = tuple[str, str]


def call(*command: str, folder: Path) -> str:
    """What a command prints, run in a folder."""
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def debian(package: str, work: Path) -> Path:
    """The unpacked files of a Debian package, given as `name=version`."""
    folder = work / package.split("=")[0]
    folder.mkdir()
    call("apt-get", "-q", "download", package, folder=folder)
    call("dpkg-deb", "-x", next(folder.glob("*.deb")).name, "files", folder=folder)
    return folder / "files/usr/share"


def httpd(work: Path) -> tuple[Path, list[Path]]:
    """The manual of the Apache HTTP Server: the pages of its English folder that are in English."""
    source = debian(HTTPD, work) / "doc/apache2-doc/manual/en"
    pages = [
        p for p in source.rglob("*.html") if p.relative_to(source).parts[0] not in HTTPD_WITHOUT
    ]
    pages = [p for p in pages if p.parent.name != "mod" or p.stat().st_size <= MODULE_BYTES]
    return source, [p for p in pages if '<html lang="en"' in p.read_text(errors="replace")]


def bun(work: Path) -> tuple[Path, list[Path]]:
    """The Markdown documentation of Bun, a runtime for JavaScript."""
    call("npm", "pack", "--silent", BUN, folder=work)
    with tarfile.open(next(work.glob("bun-types-*.tgz"))) as archive:
        archive.extractall(work, filter="data")
    source = work / "package/docs"
    pages = source.rglob("*.md")
    return source, [p for p in pages if p.relative_to(source).as_posix() not in BUN_WITHOUT]


def handbook(work: Path) -> tuple[Path, list[Path]]:
    """The Debian Administrator's Handbook, in English."""
    source = debian(HANDBOOK, work) / "doc/debian-handbook/html/en-US"
    return source, list(source.glob("*.html"))


def fortunes(work: Path) -> Iterator[Row]:
    """The short sayings of the fortune program, each with its file as the group."""
    for package in FORTUNES:
        for file in sorted((debian(package, work) / "games/fortunes").iterdir()):
            if file.suffix or file.is_symlink() or file.name in FORTUNES_WITHOUT:
                continue
            for saying in re.split(r"(?m)^%$", file.read_text(encoding="utf-8", errors="replace")):
                text = " ".join(re.sub(r".\x08", "", saying).split())
                if 0 < len(text) <= FORTUNE_CHARACTERS:
                    yield text, file.name


def packages(work: Path) -> Iterator[Row]:
    """What packages of Debian 12 say they are, with their sections: a fixed choice."""
    targets = ("apt-get", "indextargets", "--format", "$(FILENAME)", "Created-By: Packages")
    where = call(*targets, "Codename: bookworm", "Component: main", folder=work).split()
    found: list[tuple[str, str, str]] = []
    for block in call("/usr/lib/apt/apt-helper", "cat-file", where[0], folder=work).split("\n\n"):
        fields = dict(re.findall(r"(?m)^(Package|Section|Description): (.+)$", block))
        if len(fields) == 3:
            name = fields["Package"]
            text = re.sub(rf"(?i)^{re.escape(name)}\b[\s:,-]*", "", fields["Description"]).strip()
            found.append((hashlib.sha256(name.encode()).hexdigest(), text, fields["Section"]))
    rows: Counter[str] = Counter()
    seen: set[str] = set()
    for _, text, section in sorted(found):
        if len(text.split()) >= 3 and rows[section] < SECTION_ROWS and text.casefold() not in seen:
            seen.add(text.casefold())
            rows[section] += 1
            yield text, section


def write_table(folder: Path, rows: Iterable[Row]) -> str:
    """Writes unique texts in a fixed mixed order and, apart from them, their groups."""
    unique = dict(reversed(list(rows)))
    sizes = Counter(unique.values())
    kept = [(text, group) for text, group in unique.items() if sizes[group] >= GROUP_ROWS]
    kept.sort(key=lambda row: hashlib.sha256(row[0].encode()).digest())
    folder.mkdir(parents=True)
    for name, header, column in (("texts.csv", "text", 0), ("groups.csv", "group", 1)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            lines = ((i, row[column]) for i, row in enumerate(kept, 1))
            csv.writer(file, lineterminator="\n").writerows([("id", header), *lines])
    return f"{len(kept)} rows, {len({group for _, group in kept})} groups"


def write_folder(folder: Path, source: Path, pages: list[Path]) -> str:
    """Copies pages and puts the questions beside them, if each page they name is there."""
    for page in pages:
        place = folder / "docs" / page.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, place)
    table = Path(__file__).parent / "questions" / f"{folder.name}.csv"
    with table.open(encoding="utf-8", newline="") as file:
        asked = list(csv.DictReader(file))
    if missing := [row["file"] for row in asked if not (folder / "docs" / row["file"]).is_file()]:
        raise SystemExit(f"{table.name} names pages that are not there: {', '.join(missing)}")
    shutil.copyfile(table, folder / "questions.csv")
    return f"{len(pages)} files, {len({row['question'] for row in asked})} questions"


def digest(folder: Path) -> str:
    """A short fingerprint of all files of a folder, by which two builds can be compared."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    parts = ((path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files)
    lines = "\n".join(f"{path.relative_to(folder)} {content}" for path, content in parts)
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


def main(target: Path) -> None:
    """Builds all fields in a folder that has none of them yet."""
    names = ("httpd", "bun", "handbook", "packages", "fortunes")
    if there := [name for name in names if (target / name).exists()]:
        raise SystemExit(f"{target} already has {', '.join(there)}: name another folder")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        done = [
            write_folder(target / fill.__name__, *fill(work)) for fill in (httpd, bun, handbook)
        ]
        done += [write_table(target / read.__name__, read(work)) for read in (packages, fortunes)]
    for name, told in zip(names, done, strict=True):
        print(f"{name}: {told}, {digest(target / name)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
