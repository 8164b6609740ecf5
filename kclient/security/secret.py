"""Values that no log, repr, exception or pickle may show."""

from __future__ import annotations

import hmac
import re
from typing import NoReturn

MASK = "[hidden]"
"""What a secret shows, as in Kafka."""
_SENSITIVE = re.compile(r"password|passphrase|secret|credential|jaas\.config|\.key$|certificate\.chain|certificates$")


def is_sensitive(name: str) -> bool:
    """Return whether the value of a broker's or a topic's setting may be a secret, by the name of the setting.

    The names are those of Kafka's settings of the type password, with any prefix of a listener, and what plugins call
    theirs. In doubt a value is hidden.
    """
    return _SENSITIVE.search(name.lower()) is not None


def shown(name: str, value: object) -> str:
    """Return the repr of a setting's value, or what a secret shows if it may be one."""
    return MASK if value is not None and is_sensitive(name) else repr(value)


class Secret:
    """A password, token or key. Its text is available from `reveal` only.

    Parameters:
        text: the secret, or another Secret of the same text.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text._text if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied into another process; pass it there by other means")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self
