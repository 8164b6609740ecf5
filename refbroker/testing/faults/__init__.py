"""Faults for tests: answers with errors, delays, dropped answers, cut connections, damaged bytes.

`Faults` is what a test talks to, `Rule` what a fault is for and does, `injection` what does it to a request.
"""

from refbroker.testing.faults.methods import Fault, FaultMethods
from refbroker.testing.faults.registry import Faults
from refbroker.testing.faults.rule import Rule

__all__ = ["Fault", "FaultMethods", "Faults", "Rule"]
