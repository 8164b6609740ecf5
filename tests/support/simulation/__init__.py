"""kclient on the simulated machine of `refbroker.testing.simulation`, and how tests run on it (`--broker=sim`)."""
