"""How positions are found: ListOffsets, OffsetForLeaderEpoch, and the calls that set, read and look up positions.

Elsewhere: committed offsets (`committed`).
"""
