"""What do files say about a subnet: who has which LID, which P_Keys, which cables?"""

from .learn import SubnetFile, learn
from .reading import SubnetFiles, read_files

__all__ = ["SubnetFile", "SubnetFiles", "learn", "read_files"]
