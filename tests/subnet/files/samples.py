"""One small subnet in all formats: host A (LID 3) and host B (LID 4) at ports 1 and 2 of a switch (LID 2)."""

SAMPLES = {
    "ibnetdiscover": """#
# Topology file: generated on Sun Nov 22 05:12:23 2026
#
vendid=0x2c9
devid=0xcf08
sysimgguid=0x2c90200400010
switchguid=0x2c90200400010(2c90200400010)
Switch\t8 "S-0002c90200400010"\t\t# "edge 1" enhanced port 0 lid 2 lmc 0
[1]\t"H-0002c903000000a0"[1](2c903000000a1) \t\t# "host A, "fast" lid 99" lid 3 4xEDR
[2]\t"H-0002c903000000b0"[1](2c903000000b1) \t\t# "host B" lid 4 4xEDR

vendid=0x2c9
devid=0x1017
sysimgguid=0x2c903000000a0
caguid=0x2c903000000a0
Ca\t1 "H-0002c903000000a0"\t\t# "host A, "fast" lid 99"
[1](2c903000000a1) \t"S-0002c90200400010"[1]\t\t# lid 3 lmc 0 "edge 1" lid 2 4xEDR

vendid=0x2c9
devid=0x1017
sysimgguid=0x2c903000000b0
caguid=0x2c903000000b0
Ca\t1 "H-0002c903000000b0"\t\t# "host B"
[1](2c903000000b1) \t"S-0002c90200400010"[2]\t\t# lid 4 lmc 0 "edge 1" lid 2 4xEDR
""",
    "ibnetdiscover-ports": """SW     2  1 0x0002c90200400010 4x EDR - CA     3  1 0x0002c903000000a1 ( 'edge 1' - 'host A, "fast" lid 99' )
SW     2  2 0x0002c90200400010 4x EDR - CA     4  1 0x0002c903000000b1 ( 'edge 1' - 'host B' )
SW     2  3 0x0002c90200400010 4x SDR                                    'edge 1'
CA     3  1 0x0002c903000000a1 4x EDR - SW     2  1 0x0002c90200400010 ( 'host A, "fast" lid 99' - 'edge 1' )
""",
    "nodes": """Ca\t: 0x0002c903000000a0 ports 1 "host A, "fast" lid 99"
Ca\t: 0x0002c903000000b0 ports 1 "host B"
Switch\t: 0x0002c90200400010 ports 8 "edge 1" enhanced port 0 lid 2 lmc 0
""",
    "iblinkinfo": """CA: host A, "fast" lid 99:
      0x0002c903000000a1      3    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2    1[  ] "edge 1" ( )
Switch: 0x0002c90200400010 edge 1:
           2    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       3    1[  ] "host A, "fast" lid 99" ( )
           2    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       4    1[  ] "host B" ( )
           2    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
CA: host B:
      0x0002c903000000b1      4    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2    2[  ] "edge 1" ( )
""",
    "smpquery": """$ smpquery nodeinfo 3
# Node info: Lid 3
BaseVers:........................1
NodeType:........................Channel Adapter
NumPorts:........................1
SystemGuid:......................0x0002c903000000a0
Guid:............................0x0002c903000000a0
PortGuid:........................0x0002c903000000a1
PartCap:.........................64
DevId:...........................0x1017
LocalPort:.......................1
VendorId:........................0x0002c9
$ smpquery -P 1 pkeys 3 1
   0: 0xffff 0x0010 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
   8: 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
  16: 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
  24: 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
  32: 0x8020 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
64 pkeys capacity for this port
""",
    "sminfo": "sminfo: sm lid 3 sm guid 0x2c903000000a1, activity count 602 priority 12 state 3 SMINFO_MASTER\n",
    "saquery": """NodeRecord dump:
\t\tlid.....................4
\t\tnode_type...............Channel Adapter
\t\tnum_ports...............1
\t\tsys_guid................0x0002c903000000b0
\t\tnode_guid...............0x0002c903000000b0
\t\tport_guid...............0x0002c903000000b1
\t\tpartition_cap...........0x40
\t\tdevice_id...............0x1017
\t\tport_num................1
\t\tvendor_id...............0x2C9
\t\tNodeDescription.........host B
PKeyTableRecord dump:
\t\tLID........................4
\t\tPort.......................1
\t\tBlock......................0
\t\tPKey Table:
\t\t0x7fff 0x8010 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
\t\t0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
\t\t0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
\t\t0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000

MCMemberRecord group dump:
\t\tMGID....................ff12:401b:ffff::ffff:ffff
\t\tMlid....................0xC000
\t\tMtu.....................0x84
\t\tpkey....................0xFFFF
\t\tRate....................0x83
\t\tSL......................0x0
""",
    "guid2lid": """0x0002c903000000a1 0x0003 0x0003

0x0002c90200400010 0x0002 0x0002

0x0002c903000000b1 0x0004 0x0004
""",
    "guid2mkey": "0x0002c903000000a1 0x1122334455667788\n\n0x0002c903000000b1 0x0000000000000000\n",
    "neighbors": "0x0002c903000000a1:1 0x0002c90200400010:1\n\n0x0002c90200400010:1 0x0002c903000000a1:1\n",
    "opensm.log": "Nov 22 05:12:19 688550 [4D1BE80] 0x43 -> OpenSM 3.3.23\nNov 22 05:12:19 703658 [4D1BE80] 0x02 -> osm_vendor_bind: "
    "Mgmt class 0x81 binding to port GUID 0x2c903000000a1\n",
    "opensm.conf": "# options\nallow_both_pkeys TRUE\nm_key 0x1122334455667788\n",
    "subnet.lst": "{ CA-SM Ports:01 SystemGUID:0002c903000000a0 NodeGUID:0002c903000000a0 PortGUID:0002c903000000a1 VenID:0002C9 "
    'DevID:1017 Rev:000000A1 {host A, "fast" lid 99} LID:0003 PN:01 } { SW Ports:08 SystemGUID:0002c90200400010 NodeGUID:0002c90200400010 '
    "PortGUID:0002c90200400010 VenID:000002C9 DevID:CF080000 Rev:000000A1 {edge 1} LID:0002 PN:01 } PHY=4x LOG=ACT SPD=25\n",
    "lfts": """Unicast lids [0-4] of switch Lid 2 guid 0x0002c90200400010 ('edge 1'):
0x0002 000 # Switch portguid 0x0002c90200400010: 'edge 1'
0x0003 001 # Channel Adapter portguid 0x0002c903000000a1: 'host A, "fast" lid 99'
0x0004 002 # Channel Adapter portguid 0x0002c903000000b1: 'host B'
4 lids dumped
""",
    "fdbs": """dump_ucast_routes: Switch 0x0002c90200400010
LID    : Port : Hops : Optimal
0x0003 : 001  : 01   : yes
0x0004 : UNREACHABLE
""",
    "mcfdbs": "\nSwitch 0x0002c90200400010\nLID    : Out Port(s)\n0xC000 : 0x001  0x002 \n",
    "mfts": """Multicast mlids [0xc000-0xc3ff] of switch DR path slid 0; dlid 0; 0,1 guid 0x0002c90200400010 (edge 1):
            0                   1
     Ports: 0 1 2 3 4 5 6 7 8
 MLid
0xc000        x x
1 valid mlids dumped
""",
    "sa.dump": "MC Group 0xc000  (well known): mgid=0xff12401bffff0000:0x00000000ffffffff port_gid=0x0:0x0 qkey=0x00000b1b mlid=0xc000 "
    "mtu=0x84 tclass=0x00 pkey=0xffff rate=0x83\n\n"
    "mcm_port: port_gid=0xfe80000000000000:0x0002c903000000a1 scope_state=0x21 proxy_join=0x0\n",
    "db_csv": """START_NODES
NodeDesc, NumPorts, NodeType, SystemImageGUID, NodeGUID, PortGUID, DeviceID, PartitionCap, VendorID, LocalPortNum
"edge 1",8,2,0x0002c90200400010,0x0002c90200400010,0x0002c90200400010,53000,8,713,1
"host B",1,1,0x0002c903000000b0,0x0002c903000000b0,0x0002c903000000b1,4119,64,713,1
END_NODES

START_PORTS
NodeGuid,PortGuid,PortNum,MKey,LID,LMC
0x0002c90200400010,0x0002c90200400010,0,0x1122334455667788,2,0
0x0002c90200400010,0x0002c90200400010,2,N/A,0,-1
0x0002c903000000b0,0x0002c903000000b1,1,0x0,4,0
END_PORTS

START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0x0002c90200400010,2,0x2c903000000b0,1
END_LINKS
""",
    "sysfs": """==> /sys/class/infiniband/mlx5_0/node_guid <==
0002:c903:0000:00a0

==> /sys/class/infiniband/mlx5_0/ports/1/lid <==
0x3
==> /sys/class/infiniband/mlx5_0/ports/1/lid_mask_count <==
0
==> /sys/class/infiniband/mlx5_0/ports/1/gids/0 <==
fe80:0000:0000:0000:0002:c903:0000:00a1
==> /sys/class/infiniband/mlx5_0/ports/1/pkeys/0 <==
0xffff
==> /sys/class/infiniband/mlx5_0/ports/1/pkeys/1 <==
0x0010
==> /sys/class/infiniband/mlx5_0/ports/1/pkeys/2 <==
0x0000
""",
    "ibstat": """CA 'mlx5_0'
\tCA type: MT4119
\tNode GUID: 0x0002c903000000a0
\tPort 1:
\t\tState: Active
\t\tBase lid: 3
\t\tLMC: 0
\t\tPort GUID: 0x0002c903000000a1
\t\tLink layer: InfiniBand
""",
    "ibv_devinfo": """hca_id:\tmlx5_0
\tnode_guid:\t\t\t0002:c903:0000:00a0
\t\tport:\t1
\t\t\tport_lid:\t\t3
\t\t\tport_lmc:\t\t0x00
\t\t\tGID[  0]:\t\tfe80::2:c903:0:a1
""",
    "rdma-link": "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 3 sm_lid 3 lmc 0 state ACTIVE physical_state LINK_UP \n",
    "show_gids": "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4\tVER\tDEV\n---\t----\t-----\t---\n"
    "mlx5_0\t1\t0\tfe80:0000:0000:0000:0002:c903:0000:00a1\t\n",
    "partitions.conf": """# everybody is limited, the host of the SM is not
Default=0x7fff, ipoib : ALL, SELF=full ;
Storage=0x0010, mtu=4 :
        mgid=ff12:401b::0707  # an IP group
        0x0002c903000000a1=limi, 0x2c903000000b1=full ;
""",
    "node-name-map": """# node GUID, name
0x0002c90200400010 "edge 1" # the one by the door
""",
    "roce": """# RoCE
[roce]
vlans = [100, 101]
lossless = [3]
ecn = true
all-hosts = true
priorities = { 26 = 3, 48 = 6 }

[[roce.host]]
name = "node01"
addresses = ["192.168.0.1", "fd00::1"]
vlans = 101

[[roce.host]]
name = "node02"
addresses = ["192.168.0.2",
             "192.168.0.3"]
""",
    "lanes": """# SL2VL table: Lid 3
#                 SL: | 0| 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|12|13|14|15|
ports: in  0, out  0: | 0| 1| 2| 3| 4| 5| 6| 7| 0| 1| 2| 3| 4| 5| 6| 7|
""",
}
A, B, SWITCH = 0x0002C903000000A1, 0x0002C903000000B1, 0x0002C90200400010
