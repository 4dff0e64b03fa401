"""Names that subnet files give to nodes and ports."""

from __future__ import annotations

from ibdissect.subnet import Subnet
from ibdissect.subnet.node_names import NodeNames, names_in

from .into_model import learn
from .kinds_of_files import SubnetFiles


def names_of(files: SubnetFiles) -> NodeNames:
    subnet = Subnet()
    learn(subnet, files.files)
    return names_in(subnet)
