"""The options of every client: each is defined here once, with its default, unit and range.

Names are Kafka's in Python's spelling, with Kafka's meaning and, unless DESIGN.md says otherwise, 4.3's default. A
config is a frozen struct built from keyword arguments (`ProducerConfig.from_options`) or from dotted names
(`from_properties`); an option that does not exist or a value out of range raises a ConfigError that says what is
allowed. Elsewhere: the effect of each option, where it is used.
"""

from kclient.config.admin import AdminConfig
from kclient.config.client import ClientConfig, ConnectivityCallback, dotted_name, options_of
from kclient.config.consumer import ISOLATION_LEVELS, ConsumerConfig, StallCallback
from kclient.config.options import Option
from kclient.config.producer import ProducerConfig
from kclient.config.security_values import SECRETS

__all__ = [
    "ISOLATION_LEVELS",
    "SECRETS",
    "AdminConfig",
    "ClientConfig",
    "ConnectivityCallback",
    "ConsumerConfig",
    "Option",
    "ProducerConfig",
    "StallCallback",
    "dotted_name",
    "options_of",
]
