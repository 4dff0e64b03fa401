"""What does a capture show of the subnet? Nodes, ports, links, keys and partitions, each with the frame that shows it."""

from .follow import FabricFollower

__all__ = ["FabricFollower"]
