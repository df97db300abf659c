"""Files inside installed packages, named `package:PACKAGE/FILE`."""

import importlib.util
from pathlib import Path

from tercet.tasks.stage import BadInput

PACKAGE = "package:"


def package_file(name: str) -> Path:
    """The path of `package:PACKAGE/FILE`, which need not exist; nothing is imported.

    Raises: BadInput where the package is not installed.
    """
    package, _, inside = name.removeprefix(PACKAGE).partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(f"{name!r} names the Python package {package!r}, which is not installed.")
    return Path(next(iter(spec.submodule_search_locations))) / inside


def file_path(name: str) -> Path:
    """The path of a file, or of `package:PACKAGE/FILE`; it need not exist. Raises BadInput."""
    return package_file(name) if name.startswith(PACKAGE) else Path(name).expanduser()
