"""Outputs of two commits compared: runs both over captures and lists every output that differs.

python benchmarks/same_output.py BEFORE [AFTER] --captures DIR... [--quick] [--keep DIR]

BEFORE and AFTER are commits; without AFTER the working tree is compared. `--quick` leaves out the JSON lines of every frame.
Exit status 1 if any output differs.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = {
    "lint": ["lint", "--format", "json", "--fail-on", "never", "--max-findings", "none"],
    "stats": ["stats", "--format", "json"],
    "fabric": ["fabric", "--format", "json"],
    "show": ["show"],
}
EVERY_FRAME = {"jsonl": ["show", "--format", "jsonl"]}
LONG = 50_000_000
"""Outputs of more bytes are stored only as a hash."""

DRIVER = """
import hashlib, os, sys
sys.path.insert(0, sys.argv[1])
from ibdissect.cli import run
LONG, room, commands, paths = int(sys.argv[2]), sys.argv[3], eval(sys.argv[4]), sys.argv[5:]
true_out = os.dup(1)
for path in paths:
    for name, words in commands.items():
        kept = os.path.join(room, path.strip("./").replace("/", "-") + "." + name)
        file = os.open(kept, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
        os.dup2(file, 1)
        sys.argv = ["ibdissect", *words, path]
        try:
            status = run()
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
        os.write(1, f"\\nexit status {status}\\n".encode())
        os.dup2(true_out, 1)
        size = os.fstat(file).st_size
        if size > LONG:
            os.lseek(file, 0, 0)
            total = hashlib.sha256()
            while piece := os.read(file, 1 << 20):
                total.update(piece)
            os.ftruncate(file, 0)
            os.lseek(file, 0, 0)
            os.write(file, f"{size} bytes, SHA-256 {total.hexdigest()}\\n".encode())
        os.close(file)
"""


def outputs(code: Path, room: Path, commands: dict[str, list[str]], captures: list[str]) -> None:
    """Write the outputs of the checkout `code` for the captures to files in `room`."""
    room.mkdir(parents=True, exist_ok=True)
    # The driver puts `code` in front of all that Python adds: the working directory, PYTHONPATH and what .pth files insert.
    driver = [sys.executable, "-P", "-c", DRIVER, str(code), str(LONG), str(room), repr(commands), *captures]
    subprocess.run(driver, stderr=subprocess.DEVNULL, check=True)


def of_commit(commit: str | None, room: Path, commands: dict[str, list[str]], captures: list[str]) -> Path:
    """The folder with outputs of a commit, or of the working tree (None); a commit's outputs are kept in `room` and reused."""
    if commit is None:
        made = Path(tempfile.mkdtemp(prefix="working-tree-", dir=room))
        outputs(Path.cwd(), made, commands, captures)
        return made
    name = subprocess.check_output(["git", "rev-parse", "--verify", commit + "^{commit}"], text=True).strip()
    asked = hashlib.sha256(repr((commands, captures)).encode()).hexdigest()[:8]
    made = room / f"{name}-{asked}"
    if not made.exists():
        with tempfile.TemporaryDirectory() as tree:
            archive = subprocess.run(["git", "archive", name, "ibdissect"], stdout=subprocess.PIPE, check=True).stdout
            subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
            part = Path(tempfile.mkdtemp(prefix="unfinished-", dir=room))
            outputs(Path(tree), part, commands, captures)
            if not made.exists():
                part.rename(made)
    return made


def differences(before: Path, after: Path) -> int:
    """Print the first lines of each output that differs; return how many do."""
    count = 0
    for path in sorted(before.iterdir()):
        left, right = path.read_bytes(), (after / path.name).read_bytes()
        if left != right:
            count += 1
            print(f"== {path.name}")
            pretty = (text.replace(b'{"', b'\n{"').decode(errors="replace").splitlines() for text in (left, right))
            lines = list(difflib.unified_diff(*pretty, "before", "after", n=0, lineterm=""))
            print("\n".join(line[:400] for line in lines[:12]))
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--captures", nargs="+", required=True, help="captures, or folders of them")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", help="a folder in which outputs of commits are kept for the next comparison")
    options = parser.parse_args()
    commands = COMMANDS if options.quick else COMMANDS | EVERY_FRAME
    captures = sorted(
        {str(path.resolve()) for given in options.captures for path in (Path(given), *Path(given).rglob("*.pcap*")) if path.is_file()}
    )
    with tempfile.TemporaryDirectory() as temporary:
        room = Path(options.keep or temporary)
        room.mkdir(parents=True, exist_ok=True)
        before, after = (of_commit(commit, room, commands, captures) for commit in (options.before, options.after))
        count = differences(before, after)
    print(f"{count} of {len(captures) * len(commands)} outputs differ")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
