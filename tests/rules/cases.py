"""What a rule's proof is: a capture that triggers it and a near-miss twin that must stay silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ibdissect.capture.chunk import Damage
from ibdissect.lint.linter import Linter
from ibdissect.lint.point_faults import PointFaults
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.files import SubnetFile, learn
from tests import craft

CASES: dict[str, list[Case]] = {}


@dataclass(frozen=True, slots=True)
class Case:
    """`bad` triggers `code`; `twin` differs as little as possible and must not. All rules run on both."""

    code: str
    bad: bytes
    """A whole capture file."""
    twin: bytes
    frames: tuple[int, ...] = ()
    """Frames that the findings of `bad` must name; empty: any."""
    also: frozenset[str] = field(default_factory=frozenset)
    """Other rules that `bad` rightly triggers; any further finding fails the test."""
    twin_also: frozenset[str] = field(default_factory=frozenset)
    """Rules that the twin rightly triggers (never `code`)."""
    policy: SitePolicy | PointFaults | None = None
    """What the site allows, or what captures of other points say, for both."""
    known: tuple[SubnetFile, ...] = ()
    """What files say of the subnet, for both."""
    severity: str = ""
    """Severity that the findings of `bad` must have; empty: not compared."""
    damage: tuple[Damage, ...] = ()
    """What reading `bad` as a set says beside: that members are missing."""


def case(
    code: str,
    bad: bytes | Sequence[bytes],
    twin: bytes | Sequence[bytes],
    *,
    frames: Sequence[int] = (),
    also: Sequence[str] = (),
    twin_also: Sequence[str] = (),
    policy: SitePolicy | PointFaults | None = None,
    known: Sequence[SubnetFile] = (),
    severity: str = "",
    damage: Sequence[Damage] = (),
    file: Callable[[Sequence[bytes]], bytes] | None = craft.erf_pcap,
) -> None:
    """Register a proof. `bad` and `twin`: one frame, a list of frames (made a capture by `file`), or `file=None` for whole files."""

    def whole(what: bytes | Sequence[bytes]) -> bytes:
        if file is None:
            assert isinstance(what, bytes)
            return what
        return file([what] if isinstance(what, bytes) else what)

    made = Case(
        code, whole(bad), whole(twin), tuple(frames), frozenset(also), frozenset(twin_also), policy, tuple(known), severity, tuple(damage)
    )
    CASES.setdefault(code, []).append(made)


def inform(linter: Linter, policy: SitePolicy | PointFaults | None, known: Sequence[SubnetFile]) -> None:
    """Tell a linter what the site allows and what files say."""
    if policy is not None:
        linter.context.sources[type(policy)] = policy
    if known:
        linter.know([file.known for file in known])
        learn(linter.context.get(FabricFollower).subnet, known)
