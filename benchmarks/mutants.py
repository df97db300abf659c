"""60 mutants of the source, each a line with one mistake, and whether the tests notice them.

    python benchmarks/mutants.py draw                # writes benchmarks/mutants.json
    python benchmarks/mutants.py apply 7             # mutant 7 in this tree
    python benchmarks/mutants.py revert              # and the tree as it was
    python benchmarks/mutants.py run 0 1 2           # in a scratch worktree: killed or survived

Twelve mutants of each room: an operator, a comparison, a constant, a deleted statement, or two
swapped arguments. A mutant is stored with its line and the lines around it, so that it is found
again after the line has moved, in another file too. A mutant is killed when one of its file's
mirrored tests or `make quick` fails. Both together get three minutes; a mutant that they do not
finish in that time is `late` and counts as survived. The scratch worktree has this tree's commit.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".json")
KEPT = ".build/mutants/original"
ROOMS = ("tasks", "storage", "models/llm", "models/losses", "flows/recipe")
TOPS = ("tasks", "storage", "models", "flows")
KINDS = ("operator", "comparison", "constant", "statement", "arguments")
EACH = 12
SEED = 53
SECONDS = 180
CONTEXT = 3
_SWAPS = """
    Add + -; Sub - +; Mult * /; Div / *; FloorDiv // /; Mod % *; And and or; Or or and;
    Lt < <=; LtE <= <; Gt > >=; GtE >= >; Eq == !=; NotEq != ==; Is is is~not; In in not~in
"""
OPERATORS = {
    name: (old.encode(), new.replace("~", " "))
    for name, old, new in map(str.split, _SWAPS.split(";"))
}
_MESSAGES = ("log", "warnings.")
_ASKS_TYPE = ("isinstance", "issubclass", "getattr", "cast")


class Mutant(NamedTuple):
    """file: relative to the root. line: counted from 1. above, below: the lines around it."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    above: list[str]
    below: list[str]


# Kind, line (counted from 1), first and last byte in it, and what replaces them.
Edit = tuple[str, int, int, int, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["draw", "apply", "revert", "run"])
    parser.add_argument("numbers", type=int, nargs="*")
    words = parser.parse_args()
    if words.command == "draw":
        texts = [json.dumps(one._asdict(), ensure_ascii=False) for one in draw()]
        LIST.write_text("[\n" + ",\n".join(texts) + "\n]\n", encoding="utf-8")
        return
    revert(ROOT)
    mutants = [Mutant(**one) for one in json.loads(LIST.read_text(encoding="utf-8"))]
    if words.command == "apply":
        (number,) = words.numbers
        print(apply(mutants[number], ROOT))
    elif words.command == "run":
        tree = scratch()
        for number in words.numbers:
            mutant = mutants[number]
            print(number, *judge(mutant, tree), mutant.after.strip(), sep="\t", flush=True)


def draw() -> list[Mutant]:
    """`EACH` mutants of each room; the kinds take turns, and no two share a line."""
    rng = random.Random(SEED)
    drawn: dict[tuple[str, int], Mutant] = {}
    for index, room in enumerate(ROOMS):
        by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
        for path in sorted((ROOT / room).rglob("*.py")):
            for one in mutants_of(path):
                by_kind[one.kind].append(one)
        for turn in range(EACH):
            candidates = by_kind[KINDS[(index * EACH + turn) % len(KINDS)]]
            mutant = rng.choice([one for one in candidates if one[:2] not in drawn])
            drawn[mutant.file, mutant.line] = mutant
    return list(drawn.values())


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for kind, line, start, end, new in edits(ast.parse(source), [one.encode() for one in lines]):
        at = line - 1
        raw = lines[at].encode()
        after = (raw[:start] + new.encode() + raw[end:]).decode()
        above, below = lines[max(0, at - CONTEXT) : at], lines[at + 1 : at + 1 + CONTEXT]
        file = path.relative_to(ROOT).as_posix()
        yield Mutant(file, line, kind, lines[at], after, above, below)


def edits(node: ast.AST, lines: list[bytes], guarded: bool = False) -> Iterator[Edit]:
    """Edits below a node, except in annotations, messages, assertions and f-strings.

    guarded: the node is a statement in the body of an `if`. There a `return` can be deleted.
    """
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if _called(node.value if isinstance(node, ast.Expr) else node).startswith(_MESSAGES):
        return
    at, span = getattr(node, "lineno", 0), (getattr(node, "col_offset", 0), _end(node))
    if isinstance(node, ast.BinOp) and not any(
        isinstance(getattr(one, "value", 0), str) for one in (node.left, node.right)
    ):
        yield from _between("operator", node.left, node.op, node.right, lines)
    elif isinstance(node, ast.BoolOp):
        yield from _between("operator", node.values[0], node.op, node.values[1], lines)
    elif isinstance(node, ast.Compare):
        yield from _between("comparison", node.left, node.ops[0], node.comparators[0], lines)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield "constant", at, *span, repr(value)
    elif isinstance(node, ast.Call) and len(node.args) > 1 and _called(node) not in _ASKS_TYPE:
        first, second = node.args[:2]
        if first.lineno == second.end_lineno:
            a, b, c, d = first.col_offset, _end(first), second.col_offset, _end(second)
            line = lines[first.lineno - 1]
            swapped = line[c:d] + line[b:c] + line[a:b]
            yield "arguments", first.lineno, a, d, swapped.decode()
    elif isinstance(node, ast.stmt) and at == node.end_lineno and _has_effect(node, guarded):
        yield "statement", at, *span, "pass"
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                inside = name == "body" and isinstance(node, ast.If)
                yield from edits(child, lines, inside)


def _between(
    kind: str, left: ast.expr, operator: ast.AST, right: ast.expr, lines: list[bytes]
) -> Iterator[Edit]:
    """The edit of an operator that stands on one line with the ends of its operands."""
    old, new = OPERATORS.get(type(operator).__name__, (b"", ""))
    if old and left.end_lineno == right.lineno:
        place = lines[right.lineno - 1].find(old, _end(left), right.col_offset)
        if place >= 0:
            yield kind, right.lineno, place, place + len(old), new


def _end(node: ast.AST) -> int:
    return getattr(node, "end_col_offset", None) or 0


def _called(node: ast.AST) -> str:
    """The function of a call, as it is written; else nothing."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _has_effect(node: ast.stmt, guarded: bool) -> bool:
    """Whether the statement does more than to define a name, without which others would fail."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name | ast.Tuple)
    jumps = isinstance(node, ast.AugAssign | ast.Continue | ast.Break)
    return jumps or (guarded and isinstance(node, ast.Return))


def apply(mutant: Mutant, tree: Path) -> str:
    """Writes the mutant into a tree; its file. Raises SystemExit where its line is not unique."""
    file, line = find(mutant, tree)
    original = tree / KEPT / file
    original.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(tree / file, original)
    lines = original.read_text(encoding="utf-8").split("\n")
    lines[line] = mutant.after
    (tree / file).write_text("\n".join(lines), encoding="utf-8")
    return file


def find(mutant: Mutant, tree: Path) -> tuple[str, int]:
    """File and index of the mutant's line: where most of the lines around it are still there."""
    places: list[tuple[int, str, int]] = []
    for path in (path for top in TOPS for path in (tree / top).rglob("*.py")):
        file = path.relative_to(tree).as_posix()
        lines = path.read_text(encoding="utf-8").split("\n")
        for at in (at for at, line in enumerate(lines) if line == mutant.before):
            near = set(lines[max(0, at - CONTEXT) : at] + lines[at + 1 : at + 1 + CONTEXT])
            score = sum(bool(line.strip()) and line in near for line in mutant.above + mutant.below)
            places.append((score + (file == mutant.file), file, at))
    best = [place for place in places if place[0] == max(places)[0]]
    if len(best) != 1:
        sys.exit(f"{mutant.file}:{mutant.line} is found {len(best)} times: restate it by hand")
    return best[0][1:]


def revert(tree: Path) -> None:
    """Puts back the file that `apply` changed."""
    for path in (tree / KEPT).rglob("*.py"):
        shutil.copyfile(path, tree / path.relative_to(tree / KEPT))
    shutil.rmtree(tree / KEPT, ignore_errors=True)


def scratch() -> Path:
    """A worktree at this tree's commit, whose `.venv` has our packages and runs its own code."""
    tree = ROOT / ".build" / "mutants" / "tree"
    if not tree.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", tree], cwd=ROOT, check=True)
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    revert(tree)
    subprocess.run(["git", "checkout", "--quiet", head], cwd=tree, check=True)
    here, venv = Path(sys.prefix), tree / ".venv"
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        purelib = Path(sysconfig.get_path("purelib"))
        finder = next(purelib.glob("__editable__*finder.py"))
        paths = [path for path in sys.path if path.endswith("site-packages")]
        packages = venv / purelib.relative_to(here)
        ours = finder.read_text(encoding="utf-8").replace(str(ROOT), str(tree))
        (packages / finder.name).write_text(ours, encoding="utf-8")
        lines = [*paths, f"import {finder.stem}; {finder.stem}.install()"]
        (packages / "tercet.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for program in (here / "bin").iterdir():
            copy = venv / "bin" / program.name
            if program.is_file() and not copy.exists():
                copy.write_bytes(program.read_bytes().replace(bytes(here), bytes(venv)))
                copy.chmod(0o755)
    (venv / ".ready").touch()
    return tree


def judge(mutant: Mutant, tree: Path) -> tuple[str, str]:
    """`killed`, `survived` or `late`, and by what: mirrored tests first, then `make quick`."""
    file = Path(apply(mutant, tree))
    tests = sorted((tree / "tests" / file.parent).glob(f"test_{file.stem}*.py"))
    mirrored = [str(path) for path in tests if re.match(rf"test_{file.stem}(_|\.)", path.name)]
    pytest = [str(tree / ".venv/bin/python"), "-m", "pytest", "-x"]
    end = time.monotonic() + SECONDS
    try:
        for command in ([*pytest, *mirrored], ["make", "quick"])[not mirrored :]:
            # `timeout` ends the processes that tests have started, too.
            left = str(max(1, end - time.monotonic()))
            done = subprocess.run(
                ["timeout", "--kill-after=5", left, *command],
                cwd=tree,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if done.returncode in (124, 137):
                return "late", command[-1].removeprefix(f"{tree}/")
            if done.returncode:
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return "killed", failed[1] if failed else done.stdout.strip().split("\n")[-1]
        return "survived", "-"
    finally:
        revert(tree)


if __name__ == "__main__":
    main()
