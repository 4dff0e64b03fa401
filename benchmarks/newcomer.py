"""Times that newcomers take: a CI engineer, a protocol hacker, somebody from Wireshark. Each has a wheel and an empty environment.

python benchmarks/newcomer.py dist/ibdissect-*.whl [--python python3.12]

Prints the seconds of every step and what it must show; exits with 1 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]


class Newcomer:
    """Somebody with an empty environment in an empty folder, with the captures and examples of the repository."""

    def __init__(self, who: str, python: str, wheel: str, extra: str = "") -> None:
        self.folder, self.failed, self.spent = Path(tempfile.mkdtemp(prefix="newcomer-")), 0, 0.0
        print(f"\n{who}")
        shutil.copytree(REPO / "captures", self.folder / "captures")
        shutil.copy(REPO / "docs/examples/acme.pcap", self.folder)
        foreign = ("PYTHON", "GITHUB_", "VIRTUAL_ENV", "CI")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.environment["PATH"] = f"{self.folder / 'venv/bin'}:{os.environ['PATH']}"
        self.step([python, "-m", "venv", "venv"])
        self.step(["pip", "install", "-q", "--no-compile", f"{Path(wheel).resolve()}{extra}"])

    def step(self, words: list[str], status: int | None = 0, shows: str = "", **environment: str) -> None:
        """Run a command, and compare its output and exit status (None: with or without findings)."""
        start = time.perf_counter()
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, timeout=600, check=False
        )
        seconds = time.perf_counter() - start
        self.spent += seconds
        good = done.returncode in ((0, 1) if status is None else (status,)) and re.search(shows, done.stdout) is not None
        self.failed += not good
        said = [*words[:-1], Path(words[-1]).name]
        print(f"  {seconds:7.2f} s  {'ok  ' if good else 'FAIL'}  {' '.join(' '.join(said).split())[:110]}")
        if not good:
            print(f"exit status {done.returncode}, wanted {status} and /{shows}/\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def wrote(self, name: str, pattern: str) -> None:
        """Check a file that a step should have written."""
        path = self.folder / name
        good = path.exists() and re.search(pattern, path.read_text(encoding="utf-8", errors="replace")) is not None
        self.failed += not good
        print(f"             {'ok  ' if good else 'FAIL'}  {name} has /{pattern}/")

    def left(self) -> int:
        """Tidy up; the number of failed steps."""
        size = sum(file.stat().st_size for file in (self.folder / "venv").rglob("*") if file.is_file() and not file.is_symlink())
        print(f"  {self.spent:7.2f} s  in all; the environment takes {size / 1e6:.0f} MB")
        shutil.rmtree(self.folder)
        return self.failed


def ci_engineer(python: str, wheel: str) -> int:
    """Lints, gets annotations and a summary, accepts what is known, and has a job that passes."""
    me = Newcomer("A CI engineer", python, wheel)
    lint = ["ibdissect", "lint", "captures"]
    me.step(lint, 1, "Found .* errors")
    job = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(me.folder / "summary.md")}
    me.step(lint, 1, r"\A::error file=captures/.*(\n.*)*more in the job summary\n\Z", **job)
    me.wrote("summary.md", r"\| ✖ error \| PKY001")
    me.step([*lint, "--format", "sarif", "--output", "captures.sarif"], 1)
    me.wrote("captures.sarif", '"byteOffset"')
    me.step([*lint, "--format", "gitlab", "--output", "captures.json"], 1)
    me.wrote("captures.json", '"fingerprint"')
    me.step([*lint, "--write-baseline", "known.json"])
    me.step([*lint, "--baseline", "known.json"], 0, "No findings")
    return me.left()


def protocol_hacker(python: str, wheel: str) -> int:
    """Follows the two pages on dissectors and rules, then asks Python."""
    me = Newcomer("A protocol hacker", python, wheel)
    code = ""
    for page in ("first-dissector.md", "first-rule.md"):
        code = "" if page == "first-rule.md" else code
        text = (REPO / "docs" / page).read_text(encoding="utf-8")
        for language, block in re.findall(r"^```(python|console)\n(.*?)^```$", text, re.M | re.S):
            if language == "python":
                code += block + "\n\n"
                (me.folder / "acme.py").write_text(code, encoding="utf-8")
            else:
                for command in re.findall(r"^\$ (.*)$", block, re.M):
                    me.step(["bash", "-c", command], None if " lint " in command else 0, ".")
    ask = "import ibdissect\nwith ibdissect.open('captures/pkey-lab.pcap') as c: print(*(f.code for f in c.lint()))"
    me.step(["python", "-c", ask], 0, "PKY001")
    return me.left()


def wireshark_user(python: str, wheel: str) -> int:
    """Filters, prints fields, counts, opens the screen in a terminal, and queries with SQL."""
    me = Newcomer("Somebody from Wireshark", python, wheel, "[export]")
    capture = "captures/pkey-lab.pcap"
    me.step(["ibdissect", "show", capture], 0, "SubnGet")
    me.step(["ibdissect", "show", capture, "-Y", "bth.p_key == 0x8999", "-e", "frame.number"], 0, r"^33\n")
    me.step(["ibdissect", "show", capture, "--frames", "33", "--format", "tree"], 0, "Partition Key")
    me.step(["ibdissect", "show", capture, "-Y", "bth.pkey == 1"], 2)
    me.step(["ibdissect", "stats", capture], 0, "SubnGet")
    screen = "import os, pty, select, sys\npid, fd = pty.fork()\nif not pid: os.execvp('ibdissect', ['ibdissect', sys.argv[1]])\n" + (
        "seen = b''\nwhile b'PKY' not in seen and select.select([fd], [], [], 30)[0]: seen += os.read(fd, 65536)\n"
        "os.write(fd, b'q')\nwhile select.select([fd], [], [], 30)[0]:\n    try: os.read(fd, 65536)\n    except OSError: break\n"
        "print(b'PKY' in seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    me.step(["python", "-c", screen, capture], 0, "True 0", TERM="xterm-256color", COLUMNS="120", LINES="40")
    me.step(["ibdissect", "sql", capture, "select count(*) from packets"], 0, "37")
    me.step(["ibdissect", "export", capture, "--output", "out.parquet"])
    return me.left()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel")
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    people: tuple[Callable[[str, str], int], ...] = (ci_engineer, protocol_hacker, wireshark_user)
    sys.exit(int(sum(person(given.python, given.wheel) for person in people) > 0))
