"""The subnet as a capture shows it: nodes, ports, links, keys and partitions, each with the frame that shows it."""

from .events import ChunkFollowed
from .follower import FabricFollower
from .model import Subnet
from .nodes import CA, ROUTER, SWITCH, Node, Port

__all__ = ["CA", "ROUTER", "SWITCH", "ChunkFollowed", "FabricFollower", "Node", "Port", "Subnet"]
