"""`make audit`: licences of installed packages that are not allowed here, and their known faults.

Licences are what the packages' metadata say. Faults are looked up by pip-audit, which asks PyPI;
its program is the argument, since it lies in an environment of its own. Exit code 1 if there is
anything of either, or if not all could be looked up.
"""

import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions

# What may stand beside Apache-2.0, as SPDX and as older metadata write it.
ALLOWED = re.compile(
    r"\b(MIT|MIT-0|BSD|0BSD|Apache|ISC|MPL-2\.0|Mozilla Public License 2\.0|PSF-2\.0|Zlib|CC0-1\.0"
    r"|BSL-1\.0|CNRI-Python|Artistic"
    # Of French data that tests read: whatever reads them is free, and nothing here ships them.
    r"|LGPL-LR)\b"
)
# Whose metadata name a file instead.
READ = {"rouge": "Apache-2.0"}


def licence(package: Distribution) -> str:
    """What its metadata say; of several alternatives all, joined by OR."""
    about = package.metadata
    classified = [
        name.rpartition(":: ")[2]
        for name in about.get_all("Classifier", [])
        if name.startswith("License :: ")
    ]
    line = str(about.get("License") or "").strip().partition("\n")[0]
    return (
        READ.get(package.name)
        or str(about.get("License-Expression") or "")
        or " OR ".join(classified)
        or line
    )


def is_allowed(said: str) -> bool:
    """Whether one of the alternatives is, in all its terms."""
    alternatives = re.sub(r"[()]", "", said).split(" OR ")
    return any(
        all(ALLOWED.search(term) for term in one.split(" AND ")) for one in alternatives if one
    )


def faults(program: list[str], versions: dict[str, str]) -> list[str]:
    """A line for each known fault of these packages, and one if not all could be looked up."""
    pinned = "".join(f"{name}=={version}\n" for name, version in versions.items())
    alone = ["--requirement", "/dev/stdin", "--no-deps", "--disable-pip"]
    words = [*program, *alone, "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run(words, input=pinned, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return [f"pip-audit cannot ask for known faults ({last[:200]}): run it with a network."]
    told = [
        f"{package['name']} {package['version']}: {fault['id']}, mended in "
        f"{', '.join(fault['fix_versions']) or 'no version yet'}."
        for package in found
        for fault in package.get("vulns", ())
    ]
    skipped = [package["skip_reason"] for package in found if "skip_reason" in package]
    if skipped:
        told.append(
            f"{len(skipped)} of {len(found)} packages could not be looked up ({skipped[0]}): "
            "run it where PyPI itself is asked."
        )
    return told


def main() -> int:
    installed = {one.name: one for one in distributions() if one.name != "tercet"}
    said = {name: licence(one) for name, one in sorted(installed.items())}
    told = [
        f"{name}: its licence, {text or 'of which it says nothing'}, is none that is allowed here."
        for name, text in said.items()
        if not is_allowed(text)
    ]
    told += faults(sys.argv[1:], {name: one.version for name, one in installed.items()})
    print("\n".join(told) or f"{len(said)} packages: no fault known, all licences allowed.")
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())
