"""The metadata log of a node that does not vote: observation of the active controller, and its snapshots."""
