"""Which licences `make audit` lets through, and what it says where nobody can be asked."""

import importlib.util
import sys
from importlib.metadata import distributions
from types import ModuleType

import pytest
from surroundings import ROOT


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("Apache Software License", True),
        ("BSD-3-Clause AND 0BSD AND MIT AND Zlib", True),
        ("GPL-2.0-or-later OR (MIT)", True),
        ("MIT AND GPL-3.0-only", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("LICENCE.txt", False),
        ("", False),
    ],
)
def test_every_term_of_an_alternative_must_be_allowed(
    audit: ModuleType, licence: str, allowed: bool
) -> None:
    assert audit.is_allowed(licence) == allowed


def test_what_is_installed_here_is_allowed(audit: ModuleType) -> None:
    licences = {package.name: audit.licence(package) for package in distributions()}
    assert {name: text for name, text in licences.items() if not audit.is_allowed(text)} == {}


def test_without_a_network_it_says_so_in_a_sentence(audit: ModuleType) -> None:
    fails = "import sys; print('a\\nConnection refused', file=sys.stderr); sys.exit(1)"
    (sentence,) = audit.faults([sys.executable, "-c", fails], {"left": "1.0"})
    assert "Connection refused" in sentence


def test_known_faults_are_told_and_what_could_not_be_looked_up(audit: ModuleType) -> None:
    says = (
        "import json, sys\n"
        "asked = sys.stdin.read().split()\n"
        "fault = {'id': 'PYSEC-1', 'fix_versions': ['1.1']}\n"
        "found = [{'name': 'left', 'version': '1.0', 'vulns': [fault]}]\n"
        "print(json.dumps({'dependencies': [*found, {'name': 'x', 'skip_reason': asked[1]}]}))"
    )
    fault, other = audit.faults([sys.executable, "-c", says], {"left": "1.0", "right": "2.0"})
    assert all(name in fault for name in ("left 1.0", "PYSEC-1", "1.1"))
    assert "right==2.0" in other
