"""Subjects in the form of Java, and what certificates say of themselves."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.security.certificates import distinguished_name, read_certificate
from kclient.security.der import DerError, parse
from tests.support import pki
from tests.support.golden_data import golden_rows


def test_names_have_the_form_of_java() -> None:
    rows = [row for row in golden_rows("principals") if row["kind"] == "name"]
    assert len(rows) > 100
    for row in rows:
        assert distinguished_name(parse(bytes.fromhex(row["der"]))) == row["name"]


def test_a_certificate_names_its_subject_issuer_dates_and_hosts() -> None:
    der = ssl.PEM_cert_to_DER_cert(pki.certificate("al,ice", "kafka.example.org").chain)
    found = read_certificate(der)
    assert found.subject.startswith("CN=al\\,ice,OU=")
    assert found.issuer.startswith("OU=Testing CA")
    assert found.hosts == ("kafka.example.org",)
    assert found.not_before < found.not_after
    assert f"valid from {found.not_before:%Y-%m-%d %H:%M} to {found.not_after:%Y-%m-%d %H:%M} UTC" in str(found)


@given(st.data())
def test_damaged_bytes_are_an_error_and_nothing_else(data: st.DataObject) -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(pki.certificate().chain))
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(der)))
    try:
        read_certificate(bytes(der[:cut]))
    except DerError as error:
        assert str(error).startswith("not an X.509 certificate")  # noqa: PT017 - valid bytes are fine as well


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except DerError:
        return


@pytest.mark.parametrize(
    "data",
    [b"", b"\x30", b"\x30\x05\x00", b"\x30\x84\xff\xff\xff\xff", b"\x30\x85\0\0\0\0\0", b"\x1f\x81\0", b"\x30\0\x30\0"],
    ids=bytes.hex,
)
def test_lengths_are_checked_before_they_are_used(data: bytes) -> None:
    with pytest.raises(DerError):
        parse(data)
