"""No message, certificate, store or setting of security raises anything but the errors that it should."""

from __future__ import annotations

import re
import ssl
import tempfile
import tracemalloc
from base64 import b64encode
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ConfigError, KafkaError, SaslAuthenticationError
from kclient.security import scram
from kclient.security.certificates import distinguished_name, read_certificate
from kclient.security.context import make_context
from kclient.security.der import DerError, parse
from kclient.security.jaas import parse_jaas
from kclient.security.oauth.exchange import parse_client_message
from kclient.security.scram import MECHANISMS, ScramAccount, credential_of, scram_client, scram_server
from kclient.security.secret import Secret
from kclient.security.settings import TlsSettings
from refbroker.regex import JavaRegex, RegexError
from refbroker.security.principals import NoMatchingRuleError, PrincipalMapper
from refbroker.security.sasl import TOKEN_LIMIT, plain_server
from tests.support import pki
from tests.support.damage import damaged
from tests.support.golden_data import golden_rows

pytestmark = pytest.mark.fuzz

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
USER, PASSWORD = "alice", "wonder"


# SASL


def cheap(mechanism: scram.ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return f"{mechanism.name}{password}{salt!r}{iterations}".encode().ljust(32)[:32]


@pytest.fixture(autouse=True, scope="module")
def _iterations_cost_nothing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scram, "salted_password", cheap)
        yield


def account(name: str, is_token: bool) -> ScramAccount:
    return ScramAccount(name, credential_of(SHA_256, cheap(SHA_256, PASSWORD, b"salt", 4096), b"salt", 4096))


def server() -> Generator[bytes, bytes, Any]:
    found = scram_server(SHA_256, account, "servernonce")
    next(found)
    return found


def client(password: str = PASSWORD) -> Generator[bytes, bytes, None]:
    return scram_client(SHA_256, USER, Secret(password), "clientnonce")


@given(st.data())
def test_damaged_scram_messages_of_a_client_are_refused(data: st.DataObject) -> None:
    broker, own = server(), client()
    first = next(own)
    sent = data.draw(st.just(first) | damaged(first) | st.binary(max_size=100))
    try:
        final = own.send(broker.send(sent))
        answered = data.draw(st.just(final) | damaged(final) | st.binary(max_size=100))
        broker.send(answered)
    except SaslAuthenticationError:
        return
    except StopIteration as done:
        found, _ = done.value
        # Somebody who changes the first message does not know the password, unless the change has no meaning.
        assert found.user == USER
        assert scram._CLIENT_FINAL.fullmatch(answered.decode())
        return
    pytest.fail("the exchange has not ended")


@given(st.data())
def test_damaged_scram_messages_of_a_broker_are_refused(data: st.DataObject) -> None:
    broker, own = server(), client()
    reply = broker.send(next(own))
    try:
        final = own.send(data.draw(damaged(reply) | st.binary(max_size=100)))
    except SaslAuthenticationError:
        return
    with suppress(SaslAuthenticationError, StopIteration):
        broker.send(final)
    with pytest.raises(SaslAuthenticationError):
        own.send(data.draw(st.binary(max_size=100) | st.just(b"v=" + b64encode(bytes(32)))))


@given(password=st.text(max_size=20), wrong=st.booleans())
def test_any_password_logs_in_and_no_other_one(password: str, wrong: bool) -> None:
    broker, own = server(), client("x" + password if wrong else PASSWORD)
    final = own.send(broker.send(next(own)))
    with pytest.raises(SaslAuthenticationError if wrong else StopIteration):
        broker.send(final)


@given(st.binary(max_size=100) | damaged(b"\0alice\0wonder"))
def test_random_tokens_of_plain_are_refused(token: bytes) -> None:
    broker = plain_server({USER: Secret(PASSWORD), "odd": Secret("\udc80")})
    next(broker)
    try:
        broker.send(token)
    except SaslAuthenticationError:
        return
    except StopIteration:
        assert token in (b"\0alice\0wonder", b"alice\0alice\0wonder")


LARGE = TOKEN_LIMIT - 100
LARGEST = {
    "user": b"n,,n=" + b"a" * LARGE + b",r=",
    "escapes": b"n,a=" + b"=2C" * (LARGE // 3),
    "extensions": b"n,,n=a,r=b" + b",a=b" * (LARGE // 4) + b",",
    "proof": b"c=biws,r=x,p=" + b"a" * LARGE + b"!",
    "nonce": b"c=biws,r=" + b"x" * LARGE,
    "more": b"c=biws,r=x" + b",a=b" * (LARGE // 4) + b",p=!",
    "signature": b"r=x,s=" + b"a" * LARGE,
    "bearer": b"n,,\x01auth=Bearer " + b"a" * LARGE + b"\x01",
    "pairs": b"n,,\x01auth=Bearer a\x01" + b"a=b\x01" * (LARGE // 4),
    "authzid": b"n,a=" + b"a" * LARGE,
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_messages_take_little_memory(name: str) -> None:
    text = LARGEST[name].decode()
    tracemalloc.start()
    try:
        for pattern in (scram._CLIENT_FIRST, scram._CLIENT_FINAL, scram._SERVER_FIRST, scram._SERVER_FINAL):
            assert pattern.fullmatch(text) is None
        with pytest.raises(SaslAuthenticationError):
            parse_client_message(LARGEST[name])
        assert tracemalloc.get_traced_memory()[1] < 3 * TOKEN_LIMIT
    finally:
        tracemalloc.stop()


# Settings


@given(
    st.text(alphabet="\"'\\;= \n/*aAmn.", max_size=60)
    | st.text(max_size=60)
    | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))
)
def test_random_jaas_settings_are_refused_or_read(text: str) -> None:
    for config in (text, f'org.x.PlainLoginModule required {text} password="secret";'):
        shown = ""
        try:
            shown = repr(parse_jaas(Secret(config), "sasl.jaas.config"))
        except ConfigError as error:
            shown = str(error)
        assert "secret" not in shown


ONE_LINE = st.text(st.characters(exclude_characters="\n\r"), max_size=20)


@given(options=st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), ONE_LINE, max_size=4))
def test_quoted_options_of_jaas_are_read_as_they_are(options: dict[str, str]) -> None:
    quoted = " ".join('{}="{}"'.format(k, v.replace("\\", r"\\").replace('"', r"\"")) for k, v in options.items())
    module = parse_jaas(Secret(f"a.B required {quoted};"), "sasl.jaas.config")
    assert module.name == "B"
    assert {name: value.reveal() for name, value in module.options.items()} == options


RULE_PARTS = [
    *("RULE:", "DEFAULT", "/", ",", "$1", "$", "\\", "(", ")", "[", "]", "*", "+", "?", "{2}", "{2,", "|", ".", "CN="),
    *("a", "^", "(?<n>", "(?i)", "${n}", "L", "U", " ", "{9999}", "$" + "9" * 5000, "[[", "(?=", "\\1"),
]


@given(
    rules=st.lists(st.sampled_from(RULE_PARTS), max_size=14).map("".join) | st.text(max_size=40),
    subject=st.text(alphabet="CN=a,.\\\n", max_size=30) | st.text(max_size=30),
)
def test_random_mapping_rules_are_refused_or_make_a_name(rules: str, subject: str) -> None:
    for text in (rules, f"RULE:{rules}/$0/"):
        try:
            mapper = PrincipalMapper(text)
        except ConfigError:
            continue
        with suppress(NoMatchingRuleError):
            assert mapper.principal(subject).type == "User"


# Regular expressions

atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\b", "^", "$", r"\1", "(?=a)", "(?s)", "{", "\\"]
)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "*+", "{9,1}"])
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | inner.map("({})".format)
        | inner.map("(?:{})".format)
        | st.tuples(inner.map("(?:{})".format), repeats).map("".join)
        | inner.map("(?i:{})".format)
    )


@given(
    expression=st.recursive(atoms, larger, max_leaves=6) | st.text(max_size=20),
    text=st.text(alphabet="abA1", max_size=7),
)
def test_a_pattern_is_refused_or_matches_like_that_of_python(expression: str, text: str) -> None:
    try:
        found = JavaRegex(f"(x?){expression}")
    except RegexError:
        return
    match = found.fullmatch(text)
    try:
        pattern = re.compile(f"(x?){expression}", re.ASCII)
    except re.error:
        return
    expected = pattern.fullmatch(text)
    assert (match is None) is (expected is None)
    if match is not None and expected is not None:
        assert [match.group(number) for number in range(found.groups + 1)] == [expected[0], *expected.groups()]


# Certificates and stores


@given(st.data())
def test_damaged_names_are_refused_or_read(data: st.DataObject) -> None:
    rows = [row for row in golden_rows("principals") if row["kind"] == "name"]
    der = bytes.fromhex(data.draw(st.sampled_from(rows))["der"])
    with suppress(DerError):
        assert isinstance(distinguished_name(parse(data.draw(damaged(der) | st.binary(max_size=60)))), str)


def test_numbers_of_an_object_identifier_are_bounded() -> None:
    digits = b"\x55" + b"\xff" * 100_000 + b"\x7f"
    name = der(0x30, der(0x31, der(0x30, der(0x06, digits) + der(0x0C, b"x"))))
    with pytest.raises(DerError, match="too large a number"):
        distinguished_name(parse(name))


def der(tag: int, contents: bytes) -> bytes:
    return bytes([tag, 0x84]) + len(contents).to_bytes(4) + contents


@cache
def stores() -> dict[str, bytes]:
    own = pki.certificate("client")
    encrypted = pki.encrypted_key(own.key)
    with tempfile.TemporaryDirectory() as folder:
        both = pki.write_pkcs12(Path(folder, "both"), own, pki.authority_pem()).read_bytes()
        trusted = pki.write_pkcs12(Path(folder, "trusted"), None, pki.authority_pem()).read_bytes()
    return {
        "PEM": "".join(own).encode(),
        "encrypted PEM": (own.chain + encrypted).encode(),
        "PKCS12": both,
        "PKCS12 of authorities": trusted,
    }


@given(st.data())
def test_damaged_stores_are_refused_or_read(data: st.DataObject) -> None:
    content = data.draw(
        st.sampled_from(sorted(stores())).map(stores().__getitem__).flatmap(damaged) | st.binary(max_size=200)
    )
    password = data.draw(st.sampled_from([None, Secret(""), Secret(pki.PASSWORD), Secret("\udc80"), Secret("a\0b")]))
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        for settings in (
            TlsSettings(str, keystore_location=file.name, keystore_password=password, key_password=password),
            TlsSettings(str, truststore_location=file.name, truststore_password=password),
        ):
            with suppress(ConfigError):
                make_context(settings, ssl.PROTOCOL_TLS_CLIENT)


@given(st.data())
def test_damaged_pem_texts_are_refused_or_read(data: st.DataObject) -> None:
    own = pki.certificate("client")
    chain, key = (data.draw(st.just(text) | damaged(text.encode()).map(lossy)) for text in own)
    settings = TlsSettings(
        str, keystore_certificate_chain=chain, keystore_key=Secret(key), truststore_certificates=chain
    )
    with suppress(ConfigError):
        make_context(settings, ssl.PROTOCOL_TLS_SERVER)


def lossy(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@given(st.data())
def test_damaged_certificates_are_refused_or_read(data: st.DataObject) -> None:
    content = ssl.PEM_cert_to_DER_cert(pki.certificate("client").chain)
    try:
        found = read_certificate(data.draw(damaged(content)))
    except DerError:
        return
    with suppress(KafkaError, NoMatchingRuleError):
        PrincipalMapper("RULE:^CN=(.*?),.*$/$1/L").principal(found.subject)
