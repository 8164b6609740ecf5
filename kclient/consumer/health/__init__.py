"""The health of a consumer: whether it makes progress, and if not, why; as a snapshot on request, and by a timer."""
