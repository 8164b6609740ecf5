"""X.509 certificates: subject, issuer, dates and host names, for principals and for error messages.

Names have the form of Java's X500Principal (RFC 2253), which Kafka's principals are made of: the last part first, nine
keywords, and other attributes as `OID=#hex`. Verification is OpenSSL's. Not read: anything else in a certificate.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from typing import NamedTuple

from kclient.security.der import (
    BMP_STRING,
    GENERALIZED_TIME,
    IA5_STRING,
    OCTET_STRING,
    PRINTABLE_STRING,
    SEQUENCE,
    SET,
    T61_STRING,
    UTC_TIME,
    UTF8_STRING,
    DerError,
    Value,
    object_identifier,
    parse,
)

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ALTERNATIVE_NAMES = "2.5.29.17"
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_STRINGS = frozenset({UTF8_STRING, PRINTABLE_STRING, T61_STRING, IA5_STRING, BMP_STRING})
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


class Certificate(NamedTuple):
    """What a certificate says.

    Attributes:
        subject, issuer: the names, in the form of RFC 2253.
        not_before, not_after: the dates between which it is valid.
        hosts: the host names and addresses of its subjectAltName.
    """

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        names = f" for {', '.join(self.hosts)}" if self.hosts else ""
        return (
            f'the certificate "{self.subject}"{names}, issued by "{self.issuer}", valid from '
            f"{self.not_before:%Y-%m-%d %H:%M} to {self.not_after:%Y-%m-%d %H:%M} UTC"
        )


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate.

    Parameters:
        der: its bytes.

    Raises:
        DerError: the bytes are no certificate.
    """
    try:
        # Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue } (RFC 5280, 4.1)
        fields = parse(der).expect(SEQUENCE).parts()[0].expect(SEQUENCE).parts()
        if fields[0].tag == _VERSION:
            del fields[0]
        _, _, issuer, validity, subject, *rest = fields
        not_before, not_after = map(_time, validity.expect(SEQUENCE).parts())
        return Certificate(distinguished_name(subject), distinguished_name(issuer), not_before, not_after, _hosts(rest))
    except (ValueError, IndexError) as error:
        raise DerError(f"not an X.509 certificate: {error}") from error


def subject_of(der: bytes) -> str:
    """Return the subject of a certificate; see `read_certificate`."""
    return read_certificate(der).subject


def distinguished_name(name: Value) -> str:
    """Return a name in the form of RFC 2253, as Java's `X500Principal.getName()` does.

    Raises:
        DerError: the value is not a name.
    """
    relative = name.expect(SEQUENCE).parts()
    return ",".join("+".join(_attribute(part) for part in one.expect(SET).parts()) for one in reversed(relative))


def _attribute(attribute: Value) -> str:
    parts = attribute.expect(SEQUENCE).parts()
    if len(parts) != 2:
        raise DerError(f"an attribute of a name has {len(parts)} parts instead of 2")
    kind, value = parts
    identifier = object_identifier(kind)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or identifier}=#{value.whole.hex()}"
    # Java reads the bytes of every kind of string as UTF-8.
    return f"{keyword}={_escaped(str(value.contents, 'utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    letters = [f"\\{letter}" if letter in _ESCAPED else "\\00" if letter == "\0" else letter for letter in text]
    for indexes in (range(len(letters)), reversed(range(len(letters)))):
        for index in indexes:
            if letters[index] not in _BLANKS:
                break
            letters[index] = f"\\{letters[index]}"
    return "".join(letters)


def _time(value: Value) -> datetime:
    text = str(value.contents, "ascii")
    if value.tag == UTC_TIME:
        # Two digits of a year up to 49 belong to this century (RFC 5280, 4.1.2.5.1).
        text = ("20" if int(text[:2]) < 50 else "19") + text
    elif value.tag != GENERALIZED_TIME:
        raise DerError(f"expected a time, found the tag {value.tag:#04x}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _hosts(optional: list[Value]) -> tuple[str, ...]:
    """Return the host names among the optional fields of a certificate."""
    for field in optional:
        if field.tag != _EXTENSIONS:
            continue
        for extension in parse(field.contents).parts():
            kind, *_, value = extension.expect(SEQUENCE).parts()
            if object_identifier(kind) == _ALTERNATIVE_NAMES:
                names = parse(value.expect(OCTET_STRING).contents).parts()
                return tuple(found for name in names if (found := _host(name)))
    return ()


def _host(name: Value) -> str:
    if name.tag == _DNS_NAME:
        return str(name.contents, "ascii")
    if name.tag == _IP_ADDRESS:
        return str(ipaddress.ip_address(bytes(name.contents)))
    return ""
