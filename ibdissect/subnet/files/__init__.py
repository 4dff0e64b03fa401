"""Subnet files: what they say of LIDs, P_Keys, cables, and more."""

from .into_model import SubnetFile, learn
from .kinds_of_files import SubnetFiles, read_files

__all__ = ["SubnetFile", "SubnetFiles", "learn", "read_files"]
