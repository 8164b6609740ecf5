"""Tests of refbroker.log, on temporary directories and with a clock that the test moves."""
