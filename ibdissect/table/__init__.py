"""Where do structures occur, what do their fields hold, where does a condition hold?"""

from .locate import Bool, Int
from .table import ChunkTable

__all__ = ["Bool", "ChunkTable", "Int"]
