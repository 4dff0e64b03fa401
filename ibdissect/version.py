"""Which version this is; kept apart so that `--version` need load nothing else."""

VERSION = "0.1.0.dev0"
"""Of a checkout. A built package has the version of its tag here (setup.py)."""


def addresses() -> dict[str, str]:
    """Where the project lives: `[project.urls]` of pyproject.toml as it was installed; empty if it was not."""
    from importlib.metadata import PackageNotFoundError, metadata  # takes longer than all else here

    try:
        listed = metadata("ibdissect").get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    return dict(one.split(", ", 1) for one in listed)
