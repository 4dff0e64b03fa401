"""The terminal UI, the browser, errors, logs and leftover files show no key. More places for the keys of `test_secrets`."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ibdissect import Capture
from ibdissect.decode.hidden.key_numbers import secret_fields
from ibdissect.errors import ConfigError
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.screen_model.fabric_view import view_of
from ibdissect.screen_model.packet_columns import added
from ibdissect.tui.app import TuiApp
from ibdissect.tui.screens.choice import Choice
from ibdissect.wire.catalog import builtin
from tests import commands
from tests.cli.test_serve import fetch, screen
from tests.craft import LINK_INFINIBAND
from tests.fuzz.container import pcapng
from tests.test_secrets import FRAMES, KEYS, PLANTED, Planted, run, shown
from tests.tui import drawn, made
from tests.tui.conftest import seldom_drawn as seldom_drawn
from tests.tui.made import shows, until

pytestmark = pytest.mark.slow

SIZE = (150, 60)


def some() -> list[Planted]:
    """A key of each kind: M_Key, Q_Key, R_Key, vendor keys."""
    kinds = {field.filter_name: field.secret for field in secret_fields(builtin())}
    first: dict[str, Planted] = {}
    for key in PLANTED:
        first.setdefault(kinds[key.field], key)
    return list(first.values())


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("more") / "keys.pcapng"
    path.write_bytes(pcapng([(LINK_INFINIBAND, data, len(data)) for data in FRAMES]))
    return path


def seen(text: str) -> list[str]:
    """Keys found in a text of the terminal UI, where a value may be wrapped or split into words."""
    return shown(text.encode("utf-8", "replace"), PLANTED) + shown(re.sub(r"[\s:]", "", text).encode("utf-8", "replace"), PLANTED)


@pytest.mark.parametrize("show_keys", [False, True], ids=["hidden", "asked for"])
async def test_panes_and_copies(capture: Path, show_keys: bool) -> None:
    """List, tree, bytes and the copies offered by `y`, frame by frame; with --show-keys the search finds all keys, at their own lines."""
    app = made.app_on(capture, show_keys=show_keys)
    found: list[str] = []
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        app.main.packets.set_columns([*app.main.packets.columns, *(added(name) for name in KEYS[:6])])
        for key in some():
            app.jump(key.frame + 1)
            await shows(pilot, key.frame + 1)
            tree = app.main.tree_pane
            tree.action_open_all()
            said = drawn.text(app)
            masked = [k for k, (_, line) in enumerate(tree.lines) if line.node is not None and line.node.name == key.field]
            start = key.end - len(key.value)
            around = [k for k, (_, line) in enumerate(tree.lines) if (node := line.node) is not None and not node.in_front
                      and node.offset <= start < node.offset + len(node.raw)]  # fmt: skip
            for index in (*masked[:1], *(around if not show_keys else ())):
                tree.select(index)
                await pilot.pause()
                said += drawn.text(app)
                app.action_command("y")
                await pilot.pause()
                said += drawn.text(app) + "".join(choices(app))
                app.screen.dismiss(None)
                await pilot.pause()
            lines = ["".join(segment.text for segment in tree.parts(i, 400)) for i in range(len(tree.lines))]
            found += seen(said + "\n".join(lines))
    if show_keys:
        assert {key.field for key in some()} <= {text.partition(" ")[0] for text in found}
    else:
        assert found == []


def choices(app: TuiApp) -> list[str]:
    """The texts that the copy window offers."""
    assert isinstance(app.screen, Choice)
    return [text for entry in app.screen.entries for text in entry]


async def test_screens(capture: Path) -> None:
    """Findings, explanations, summary, fabric with all its details, statistics, conversations, transfers, completions, filters, notes."""
    app = made.app_on(capture)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        findings = app.main.findings_pane
        await until(pilot, lambda: app.study.finished and findings.count() == len(app.model.findings.first()) and app.main.tree_pane.lines)
        said = "".join(segment.text for i in range(findings.count()) for segment in findings.parts(i, 1000))
        assert findings.count() > 20
        for finding in app.model.findings.first()[::40]:
            app.explain(finding)
            await pilot.pause()
            said += drawn.text(app)
            app.screen.dismiss(None)
            await pilot.pause()
        for key in "SbsC":
            await pilot.press(key)
            await until(pilot, lambda: len(app.screen_stack) > 1)
            await pilot.pause()
            said += drawn.text(app)
            await pilot.press("escape")
            await pilot.pause()
        said += repr(view_of(app.study.subnet).entries)
        app.action_command("slash")
        for name in KEYS:
            app.main.filter_bar.put(f"{name} == ")
            app.main.filter_bar._offer()
            app.main.filter_bar.put(f"{name} == x")
            said += "".join(entry.text + entry.label for entry in app.main.filter_bar._found) + str(app.main.filter_bar.reason.render())
        await pilot.pause()
        said += drawn.text(app)
        assert "_Key#" in said and seen(said) == []
    state = "".join(path.read_text() for path in (capture.parent / "history", capture.parent / "screen.json") if path.exists())
    assert seen(state) == []


def test_errors_of_policies() -> None:
    """An error next to a key, or in it, is reported without the key."""
    key = 0x1122334455667788
    for bad in ([key, f"0x{key:x}zz"], [key << 64], [-key], {f"0x{key:x}": 1}, [{"a": key}]):
        with pytest.raises(ConfigError) as caught:
            SitePolicy.of({"m-keys": bad}, "site.toml")
        said = str(caught.value) + repr(caught.value)
        assert f"{key:x}" not in said and str(key) not in said and str(key << 64) not in said


MISTAKES = {
    "syntax": 'site.m-keys = ["{key}" "x"]', "unknown key": 'site.m-key = ["{key}"]', "no number": 'site.m-keys = ["{key}x"]',
    "too large": "site.m-keys = [{key}00]", "elsewhere": 'select = ["NONE"]\nsite.m-keys = ["{key}"]', "no list": "site.m-keys = {key}x",
    "twice": 'site.m-keys = ["{key}"]\nsite.m-keys = ["{key}"]', "severity": 'severity = {{PKY001 = "loud"}}\nsite.m-keys = [{key}]',
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_errors_of_configurations(mistake: str, tmp_path: Path, capture: Path) -> None:
    key = "0x0a7b3c9d1e2f4a5b"
    path = tmp_path / "x.toml"
    path.write_text(MISTAKES[mistake].format(key=key))
    done = commands.run("lint", str(capture), "--config", str(path), text=True)
    assert done.returncode == 2 and done.stderr.startswith("error:"), done.stderr
    assert "a7b3c9d1e2f4a5b" not in (done.stderr + done.stdout).lower() and str(int(key, 16)) not in done.stderr


def test_a_policy_with_keys(tmp_path: Path, capture: Path) -> None:
    """Findings, baselines, statistics and representations do not show keys of the policy either."""
    key = 0x0A7B3C9D1E2F4A5B
    policy = Planted("policy", key.to_bytes(8, "big"), 0, 8)
    assert shown(repr(SitePolicy.of({"m-keys": [key]}, "x")).encode(), [policy]) == []
    path, target = tmp_path / "x.toml", tmp_path / "baseline.json"
    path.write_text(f'site.m-keys = ["0x{key:016x}"]\n')
    said = run("lint", str(capture), "--config", str(path), "--write-baseline", str(target))
    said += run("lint", str(capture), "--config", str(path), "--statistics", "--timing", "--max-findings", "none")
    assert b"M_Key" in said and shown(said + target.read_bytes(), [policy, *PLANTED]) == []


def test_the_browser_and_its_log(capture: Path) -> None:
    """The page, what its terminal UI draws, and all output of the server until it is stopped."""
    pytest.importorskip("textual_serve")
    words = [sys.executable, "-m", "ibdissect", "serve", str(capture), "-Y", "infiniband.mad.mgmtclass == 1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://([0-9.]+):(\d+)/([\w-]+)/", process.stderr.readline())
            assert found is not None
            status, page = fetch(found[1], int(found[2]), f"/{found[3]}/")
            drawn_there = asyncio.run(screen(found[1], int(found[2]), found[3]))
        finally:
            process.send_signal(signal.SIGTERM)
        printed = "".join(process.communicate(timeout=30))
    assert status == 200 and b"SMP" in drawn_there
    assert shown(page.encode() + drawn_there + printed.encode(), PLANTED) == []


def test_tables_of_the_python_interface(capture: Path) -> None:
    """Arrow tables of every key field, and representations of trees, captures and findings."""
    pytest.importorskip("pyarrow")
    with Capture(str(capture)) as opened:
        table = opened.table().to_arrow(*KEYS, "frame.number")
        said = str(table.to_pylist()) + table.to_string(preview_cols=10**6)
        said += repr(opened) + "".join(repr(opened.dissect(key.frame + 1)) for key in some()[:10])
    assert table.num_rows == len(FRAMES) and shown(said.encode(), PLANTED) == []


async def test_a_failure_of_the_screen_shows_no_values(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bug reports show where and why it failed, but no values of variables."""
    app = made.app_on(capture)

    def broken() -> None:
        key = PLANTED[0].value.hex()
        raise ValueError(f"on purpose\x1b[31m {len(key)}")

    with pytest.raises(ValueError, match="on purpose"):
        async with app.run_test(size=SIZE) as pilot:
            app.call_later(broken)
            await pilot.pause(0.2)
    said = capsys.readouterr().err
    assert "ValueError: on purpose\\x1b[31m" in said and "in broken" in said
    assert shown(said.encode(), PLANTED) == []
