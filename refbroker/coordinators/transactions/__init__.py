"""The state of transactional ids, and what producers ask of it: to begin, to add partitions, to commit or abort."""
