"""Which version this is; kept apart so that `--version` need load nothing else."""

VERSION = "0.1.0"
