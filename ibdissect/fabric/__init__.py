"""The subnet as a capture teaches it: nodes, ports, links, keys and partitions, each with the frame that said so."""

from .follow import Follower

__all__ = ["Follower"]
