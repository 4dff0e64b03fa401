"""What all tests of reports need."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own CI is a job, too."""
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
