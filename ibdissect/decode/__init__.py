"""Places of structures, values of fields and conditions over a chunk of a capture, as columns."""

from .chunk_table import ChunkTable
from .locate import Bool, Int

__all__ = ["Bool", "ChunkTable", "Int"]
