"""Which names do subnet files give to nodes and ports?"""

from __future__ import annotations

from ibdissect.fabric import Subnet
from ibdissect.fabric.names import Names, names_in

from .learn import learn
from .reading import SubnetFiles


def names_of(files: SubnetFiles) -> Names:
    subnet = Subnet()
    learn(subnet, files.files)
    return names_in(subnet)
