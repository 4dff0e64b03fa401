"""Where do structures occur, what do their fields hold, where does a condition hold?"""

from .chunk_table import ChunkTable
from .locate import Bool, Int

__all__ = ["Bool", "ChunkTable", "Int"]
