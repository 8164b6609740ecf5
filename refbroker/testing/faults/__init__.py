"""Faults for tests: error responses, delays, dropped responses, closed connections, corrupted bytes.

`Faults` is the interface for tests, `Rule` describes a fault, and `injection` applies it to a request.
"""

from refbroker.testing.faults.methods import Fault, FaultMethods
from refbroker.testing.faults.registry import Faults
from refbroker.testing.faults.rule import Rule

__all__ = ["Fault", "FaultMethods", "Faults", "Rule"]
