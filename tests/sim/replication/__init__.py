"""The machines of replication over logs in memory, with a model of the controller, in a seeded simulation."""
