"""Which version this is; kept apart so that `--version` need load nothing else."""

VERSION = "0.1.0.dev0"
"""Of a checkout. A built package has the version of its tag here (setup.py)."""
