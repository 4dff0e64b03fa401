"""Tests mirror the package, so that a reader finds the tests of a module by its name.

`ibdissect/a/b.py` is tested by `tests/a/test_b.py`. Exceptions are listed here, and the lists may only shrink.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPO

WALKED = {
    "wire": "declarations: tests/wire/test_structs.py, test_roundtrip_spec.py and test_fields_csv.py walk all of them",
    "subnet/files": "formats: tests/subnet/files/test_kinds_of_files.py reads a sample of each, test_knowledge.py the files of real tools",
    "rules": "rules: tests/rules/test_rules.py asks each for its documentation, its proof and a silent twin",
}
"""Folders whose modules are all of one kind, which a few tests cover together."""
TESTED_BY_OTHERS = {
    ".": (
        "small, and used by the tests of every room",
        "errors version",
    ),
    "cli": (
        "tests/cli/test_main.py, test_refusals.py and tests/test_docs.py run the commands",
        "annotate browser common_options each_capture export frame_selection output scapy_text scrub show_formats sql",
    ),
    "diagnosis": (
        "tests/diagnosis/test_causes.py",
        "cause_found",
    ),
    "dfilter": (
        "tests/dfilter/test_compile.py, test_corners.py, test_recorded.py and test_tshark.py put filters through all of it",
        "check frame_properties literals names syntax typed_tree",
    ),
    "dissect": (
        "tests/dissect/test_walk.py, test_summary.py and tests/cli/test_show.py",
        "info_line_mad info_line_other json_lines layout named_values printers shown_value tree",
    ),
    "engine": (
        "tests/engine/test_pairing.py and tests/diagnosis/test_connection_follower.py",
        "agreed_lanes",
    ),
    "export": (
        "tests/export/test_export.py",
        "copied_frames formats query_results whole_files writers",
    ),
    "layers": (
        "tests/layers/test_captures.py and test_building.py",
        "erf fields inner link mad registry transport",
    ),
    "mad": (
        "tests/transport/test_flows.py and test_streams.py",
        "agents datagrams loss_times request_outcomes rmpp",
    ),
    "pipeline": (
        "tests/pipeline/test_check.py",
        "capture_report check_options make_linter",
    ),
    "report": (
        "tests/report/test_formats.py",
        "github json junit sarif",
    ),
    "screen_model": (
        "tests/screen_model/test_background_analysis.py and tests/tui drive them",
        "one_way_flows shown_frames shown_names threads",
    ),
    "subnet": (
        "tests/subnet/test_known_tables.py, test_shared.py, test_earlier_answers.py and tests/subnet/files/test_roce_toml.py",
        "attribute_smps facts_from_sa_records roce_network",
    ),
    "transport": (
        "tests/transport/test_flows.py and test_streams.py",
        "credits events lost_requests multicast",
    ),
    "tui": (
        "tests/tui/test_snapshots.py, and test_ending.py for the drivers",
        "drivers messages",
    ),
    "tui/panes": (
        "tests/tui/test_main_screen.py and test_snapshots.py",
        "bars",
    ),
    "tui/screens": (
        "tests/tui/keys/test_explaining.py, test_searching.py and test_columns.py open them",
        "choice prompt",
    ),
    "tui/widgets": (
        "tests of the panes and screens that are built of them",
        "line line_list plots splitter tree_list",
    ),
}
"""Folder: (which tests run its modules instead, modules without a test file of their own)."""
AT_MOST = 85
"""Modules in that list. Lower this number when you write a test file; never raise it."""
TOPICS = {
    ".": (
        "bad_input budget captures coverage docs fabric_numbers floods guides hostile hostile_pcapng hostile_places "
        "hostile_world numbers integrations interrupts keys limits offsets old_plugins packaging plugin_docs plugin_package "
        "plugin_places python_reference recordings same_numbers secrets planted public secrets_everywhere secrets_more sentences "
        "splices tutorial unknown windows work wrong_plugins zed"
    ),
    "capture": "window_memory",
    "cli": "honest_ends main refusals sets",
    "decode": "kept_streams locate_cuts locate_edges parts queue_pairs",
    "dfilter": "corners keys recorded tshark",
    "export": "connections export",
    "fuzz": "agreement corpus declared screen",
    "layers": "answers building captures plugin_fields",
    "lint": "engine_events seen_again",
    "mad": "rmpp_records",
    "oracle": "oracle",
    "pictures": "browser",
    "report": "formats",
    "robustness": "kinds proofs slice",
    "rules": "alone early follower_order forgotten gaps gate kinds later_facts legal_traffic messages misses pairs roce_kinds rules "
    "same_numbers who",
    "rules/MKY": "leases_and_violations",
    "rules/PKY": "random_traffic",
    "scrub": "scrub",
    "subnet": "known_tables sa_answers shared changes_of_links",
    "subnet/files": "fabric_numbers knowledge",
    "transport": "flows repetitions stream_ends table",
    "tui": "ending hostile_text snapshots terminal",
    "wire/ulp": "services tshark",
    "wire": "declared fields_csv gs_tshark libibmad roundtrip_spec sm_tshark structs vendor_cc vendor_fields",
}
"""Folder: test files that are about a topic across modules; the first line of each says what it tests."""


def modules() -> set[str]:
    """Modules as paths without `.py`, relative to the package."""
    found = (REPO / "ibdissect").rglob("*.py")
    return {path.relative_to(REPO / "ibdissect").with_suffix("").as_posix() for path in found if not path.stem.startswith("__")}


def named_by_tests() -> set[str]:
    """What test files are named after, as paths relative to the tests."""
    found = (path.relative_to(REPO / "tests") for path in (REPO / "tests").rglob("test_*.py"))
    return {
        path.with_name(path.stem.removeprefix("test_")).as_posix()
        for path in found
        if path.parts[0] not in ("plugin_package", "test_mirror.py")
    }


def listed(folders: dict[str, str]) -> set[str]:
    """`{"a": "b c"}` as paths: a/b, a/c."""
    return {(Path(folder) / name).as_posix() for folder, names in folders.items() for name in names.split()}


EXCEPTIONS = listed({folder: names for folder, (_, names) in TESTED_BY_OTHERS.items()})


def test_every_module_has_a_test_file_or_is_listed() -> None:
    ours = {module for module in modules() if not module.startswith(tuple(f"{room}/" for room in WALKED))}
    assert ours - named_by_tests() - EXCEPTIONS == set(), "write tests/FOLDER/test_NAME.py"
    assert EXCEPTIONS - (ours - named_by_tests()) == set(), "has a test file by now, or is gone: take it out of the list"
    assert len(EXCEPTIONS) <= AT_MOST


def test_every_test_file_is_named_after_a_module_or_a_listed_topic() -> None:
    rooms = {module.rpartition("/")[0] for module in modules()}
    named = modules() | rooms | listed(TOPICS)
    assert named_by_tests() - named == set(), "name it after the module it tests, or list its topic"
    assert listed(TOPICS) - named_by_tests() == set(), "gone: take it out of the list"


def test_every_module_begins_with_what_it_holds_or_tests() -> None:
    """As a phrase or a sentence, no question: who greps for a header or an attribute finds its module."""
    paths = [path for folder in ("ibdissect", "tests", "benchmarks", "docs") for path in (REPO / folder).rglob("*.py")]
    paragraph = re.compile(r'(?:#.*\n)*"""(.+?)(?:\n\n|""")', re.S)
    begins = {path: paragraph.match(text) for path in paths if (text := path.read_text(encoding="utf-8"))}
    assert len(begins) > 1000
    assert [path for path, first in begins.items() if first is None and path.name != "__init__.py"] == []
    assert [path for path, first in begins.items() if first and re.search(r"\?(?=\s|$)", first[1])] == []


@pytest.mark.parametrize("shared", [True])
def test_a_parameter_is_no_fixture(shared: bool, request: pytest.FixtureRequest) -> None:
    """A test with a parameter that is named as a fixture runs in the fast lane."""
    assert shared and request.node.get_closest_marker("slow") is None
