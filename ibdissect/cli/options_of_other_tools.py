"""Options of tshark, ruff, eslint and semgrep, with their names here."""

from __future__ import annotations

OF_TSHARK = {
    "-c": "`show --frames 1-N`",
    "-d": "`--roce-port PORT`",
    "-F": "the ending of FILE: `export CAPTURE -o FILE.pcapng`",
    "-f": "`-Y FILTER`",
    "-G": "`fields`",
    "-i": "`tui --live`",
    "-N": "`--names`",
    "-n": "nothing: addresses are never looked up",
    "-R": "`-Y FILTER`",
    "-r": "the name of the capture alone",
    "-S": "`tui --follow`",
    "-T": "`show --format FORMAT`, or `-e NAME` alone for fields",
    "-V": "`show --format tree`",
    "-w": "`export CAPTURE -o FILE`",
    "-x": "`show --format dump`",
    "-z": "`stats`, `follow`, or `tui`",
}
"""Options of tshark, and what does the same here."""
OF_LINTERS = {
    "--exclude": "`per-path-ignores` of the configuration, or name the captures",
    "--ext": "nothing: files are known by their first bytes",
    "--extend-exclude": "`per-path-ignores` of the configuration",
    "--fix": "nothing: a capture is evidence, and stays as it is",
    "--ignore-pattern": "`per-path-ignores` of the configuration",
    "--isolated": "`--config /dev/null`",
    "--json": "`--format json`",
    "--junit-xml": "`--output-file junit=FILE`",
    "--junit-xml-output": "`--output-file junit=FILE`",
    "--junitxml": "`--output-file junit=FILE`",
    "--list-rules": "`ibdissect rules`",
    "--max-warnings": "`--fail-on warning`",
    "--no-cache": "nothing: without `--cache` nothing is remembered",
    "--no-color": "`--color never`",
    "--output-format": "`--format`",
    "--per-file-ignores": "`per-path-ignores` of the configuration",
    "--print-config": "`--show-settings`",
    "--rule": "`--select`, and `[severity]` of the configuration",
    "--rules": "`ibdissect rules`",
    "--sarif": "`--format sarif`",
    "--sarif-output": "`--output-file sarif=FILE`",
    "--severity": "`--fail-on`, or `[severity]` of the configuration",
    "--show-source": "`--format full`",
    "--stdin-filename": "nothing: standard input is called `-`",
    "--verbose": "`--statistics`, `--timing` or `--show-settings`",
    "-c": "`--config`",
    "-f": "`--format`",
    "-v": "`--statistics`, `--timing` or `--show-settings`",
}
"""Options of ruff, eslint, semgrep and pytest, and what does the same in `lint`."""


def ours(command: str | None, option: str) -> str | None:
    """What an option of another program is called in a command; None if it is unknown."""
    return (OF_LINTERS.get(option) if command == "lint" else None) or OF_TSHARK.get(option) or OF_LINTERS.get(option)
