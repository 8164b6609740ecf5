"""The options of the clients as Spark passes them: text, by Kafka's dotted names, that shows no password.

Spark pickles them to start tasks in other processes, so they cannot be `kclient.security.secret.Secret`. Elsewhere:
their meaning (`kclient.config`).
"""

from __future__ import annotations

from kclient.config import SECRETS, ClientConfig, dotted_name

_HIDDEN = frozenset(dotted_name(ClientConfig, name) for name in SECRETS)
_MASK = "[hidden]"


class ClientOptions(dict[str, str]):
    """Options of a client; its text hides those that are secret."""

    def __repr__(self) -> str:
        return repr({name: _MASK if name in _HIDDEN else text for name, text in self.items()})
