"""Time and memory to read the files of a large subnet. `python benchmarks/subnet.py [HOSTS]`

Writes the files of a made-up subnet of one-port hosts, 30 a switch (ibnetdiscover, guid2lid, partitions.conf), and reads them as --subnet
does. 10,000 hosts make 20,334 ports.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.model import Subnet

HOSTS_A_SWITCH = 30


def write(folder: Path, hosts: int) -> None:
    """Host i has node GUID 0x98039b0300000000 + 8 * i, its port the next one."""
    switches = [0x506B4B0300000000 + 16 * i for i in range(-(-hosts // HOSTS_A_SWITCH))]
    nodes = [0x98039B0300000000 + 8 * i for i in range(hosts)]
    lids = {guid: lid for lid, guid in enumerate([*switches, *(node + 1 for node in nodes)], 1)}
    with (folder / "ibnetdiscover.txt").open("w") as file:
        for s, switch in enumerate(switches):
            head = f"vendid=0x2c9\ndevid=0xcf08\nsysimgguid=0x{switch:x}\nswitchguid=0x{switch:x}({switch:x})\n"
            file.write(f'{head}Switch\t36 "S-{switch:016x}"\t\t# "sw{s}" enhanced port 0 lid {lids[switch]} lmc 0\n')
            for k, node in enumerate(nodes[s * HOSTS_A_SWITCH : (s + 1) * HOSTS_A_SWITCH], 1):
                file.write(f'[{k}]\t"H-{node:016x}"[1]({node + 1:x}) \t\t# "host {node:x}" lid {lids[node + 1]} 4xEDR\n')
        for i, node in enumerate(nodes):
            s, k = divmod(i, HOSTS_A_SWITCH)
            head = f"\nvendid=0x2c9\ndevid=0x1017\nsysimgguid=0x{node:x}\ncaguid=0x{node:x}\n"
            far = f'"S-{switches[s]:016x}"[{k + 1}]\t\t# lid {lids[node + 1]} lmc 0 "sw{s}" lid {lids[switches[s]]} 4xEDR\n'
            file.write(f'{head}Ca\t1 "H-{node:016x}"\t\t# "host {node:x}"\n[1]({node + 1:x}) \t{far}')
    (folder / "guid2lid").write_text("".join(f"0x{guid:016x} 0x{lid:04x} 0x{lid:04x}\n\n" for guid, lid in lids.items()))
    members = ["Default=0x7fff : ALL, SELF=full ;\n"]
    for number in range(40):
        mine = ",\n ".join(f"0x{node + 1:x}={'full' if i % 3 == 0 else 'limited'}" for i, node in enumerate(nodes[number::40]))
        members.append(f"Tenant{number}=0x{number + 16:x} : {mine} ;\n")
    (folder / "partitions.conf").write_text("".join(members))


def main() -> None:
    """Print time and memory."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), hosts)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        files, subnet = read_files([name]), Subnet()
        learn(subnet, files.files)
    spent, most = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for_it = (most - before) // 1024
    print(
        f"{subnet.port_count} ports, {len(subnet.lids)} LIDs: {spent:.2f} s of CPU, {most // 1024} MB, {for_it} MB of them for the subnet"
    )


if __name__ == "__main__":
    main()
