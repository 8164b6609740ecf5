"""The options of security.

Elsewhere: their names and values (`security_values`), which of them contradict each other (`security_checks`), who logs
in (`login`), and what they make: TLS contexts (`kclient.security.context`) and the messages of SASL
(`kclient.security.sasl`).
"""

from collections.abc import Sequence
from typing import Annotated, Any

from kclient.config.network import NetworkConfig
from kclient.config.options import Option, milliseconds, seconds
from kclient.config.security_values import HANDLERS, STORE_TYPES, names, secret
from kclient.security.aws.login import HANDLER
from kclient.security.kerberos.settings import KINIT
from kclient.security.oauth.assertions import ALGORITHMS
from kclient.security.oauth.settings import RETRIEVERS, TokenProvider
from kclient.security.secret import Secret
from kclient.security.settings import TlsSettings


class SecurityConfig(NetworkConfig, frozen=True, kw_only=True):
    """Options that say how connections are secured."""

    security_protocol: Annotated[
        str,
        Option('How connections are secured: "PLAINTEXT", "SSL" (TLS), "SASL_PLAINTEXT" or "SASL_SSL", in any case.'),
    ] = "PLAINTEXT"
    ssl_truststore_location: Annotated[
        str | None,
        Option("A file of the certificates to trust, PEM or PKCS12; None for those of the system."),
    ] = None
    ssl_truststore_certificates: Annotated[str | None, Option("The certificates to trust, as PEM text.")] = None
    ssl_truststore_type: Annotated[
        str | None,
        Option("Accepted as in Java and not needed: the format is recognized by the content.", choices=STORE_TYPES),
    ] = None
    ssl_truststore_password: Annotated[str | Secret | None, Option("The password of a PKCS12 truststore.")] = None
    ssl_keystore_location: Annotated[
        str | None,
        Option("A file of this client's certificate chain and key, PEM or PKCS12, for brokers that ask for one."),
    ] = None
    ssl_keystore_type: Annotated[
        str | None,
        Option("Accepted as in Java and not needed: the format is recognized by the content.", choices=STORE_TYPES),
    ] = None
    ssl_keystore_password: Annotated[str | Secret | None, Option("The password of a PKCS12 keystore.")] = None
    ssl_keystore_certificate_chain: Annotated[
        str | None, Option("This client's certificate chain, as PEM text or the path of a PEM file.")
    ] = None
    ssl_keystore_key: Annotated[
        str | Secret | None, Option("The key of the certificate, as PEM text or the path of a PEM file.")
    ] = None
    ssl_key_password: Annotated[str | Secret | None, Option("The password of the key.")] = None
    ssl_endpoint_identification_algorithm: Annotated[
        str,
        Option(
            'Whether the certificate must be for the host that the client connects to: "https", or "" for any host.',
            choices=("https", ""),
        ),
    ] = "https"
    ssl_enabled_protocols: Annotated[
        str | Sequence[str], Option("The versions of TLS to allow: names, or one string with commas between them.")
    ] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: Annotated[
        str | Sequence[str],
        Option("The cipher suites to allow, by Java's or OpenSSL's names; none for OpenSSL's choice."),
    ] = ()
    ssl_context: Annotated[
        Any, Option("An ssl.SSLContext made by the application, which replaces the other ssl options.")
    ] = None
    sasl_mechanism: Annotated[
        str | None,
        Option(
            'How the client logs in: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI" or '
            '"AWS_MSK_IAM".'
        ),
    ] = None
    sasl_username: Annotated[str | None, Option("The user that logs in.")] = None
    sasl_password: Annotated[str | Secret | None, Option("The password of the user.")] = None
    sasl_jaas_config: Annotated[
        str | Secret | None,
        Option(
            "User and password as in Java (MODULE required username=... password=...;), instead of sasl_username and "
            "sasl_password; the keytab or the ticket cache of GSSAPI."
        ),
    ] = None
    sasl_oauth_token_provider: Annotated[
        TokenProvider | None,
        Option(
            "Returns a token for OAUTHBEARER, as kclient.OAuthToken or text; a function or a coroutine "
            "function. It is called in a thread of its own, a coroutine of an async client runs in its event loop.",
            secret=True,
        ),
    ] = None
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str | None,
        Option("Where the client asks for tokens: an https URL, http on the loopback interface, or file:///PATH."),
    ] = None
    sasl_oauthbearer_ca_location: Annotated[
        str | None,
        Option("A PEM file of the certificates to trust at the token endpoint; None for those of the system."),
    ] = None
    sasl_oauthbearer_scope: Annotated[str | None, Option("The scope to ask the token endpoint for.")] = None
    sasl_oauthbearer_client_credentials_client_id: Annotated[
        str | None, Option("The client id for the token endpoint.")
    ] = None
    sasl_oauthbearer_client_credentials_client_secret: Annotated[
        str | Secret | None, Option("The secret of the client id.")
    ] = None
    sasl_oauthbearer_header_urlencode: Annotated[
        bool, Option("Whether to URL-encode client id and secret, as RFC 6749 says and some providers do not expect.")
    ] = False
    sasl_oauthbearer_jwt_retriever_class: Annotated[
        str,
        Option(
            "Kafka's class, which selects what to ask for: JwtBearerJwtRetriever for the grant jwt-bearer, the others "
            "for client credentials.",
            choices=tuple(RETRIEVERS),
        ),
    ] = next(iter(RETRIEVERS))
    sasl_oauthbearer_assertion_file: Annotated[
        str | None, Option("A file with a signed assertion to send to the token endpoint instead of a secret.")
    ] = None
    sasl_oauthbearer_assertion_private_key_file: Annotated[
        str | None, Option("A file with the key, as PEM, that signs assertions for the token endpoint.")
    ] = None
    sasl_oauthbearer_assertion_private_key_passphrase: Annotated[
        str | Secret | None, Option("The password of that key.")
    ] = None
    sasl_oauthbearer_assertion_algorithm: Annotated[str, Option("How assertions are signed.", choices=ALGORITHMS)] = (
        "RS256"
    )
    sasl_oauthbearer_assertion_template_file: Annotated[
        str | None, Option("A JSON file with the objects header and payload, to which the rest is added.")
    ] = None
    sasl_oauthbearer_assertion_claim_aud: Annotated[str | None, Option("The audience of assertions.")] = None
    sasl_oauthbearer_assertion_claim_iss: Annotated[str | None, Option("The issuer of assertions.")] = None
    sasl_oauthbearer_assertion_claim_sub: Annotated[str | None, Option("The subject of assertions.")] = None
    sasl_oauthbearer_assertion_claim_exp_seconds: Annotated[
        int, seconds("How long assertions are valid.", 0, 86_400)
    ] = 300
    sasl_oauthbearer_assertion_claim_nbf_seconds: Annotated[
        int, seconds("How long before the present assertions become valid.", 0, 3_600)
    ] = 60
    sasl_oauthbearer_assertion_claim_jti_include: Annotated[bool, Option("Whether assertions contain a random id.")] = (
        False
    )
    sasl_login_connect_timeout_ms: Annotated[
        int | None,
        milliseconds(
            "The longest request to the token endpoint, like sasl_login_read_timeout_ms; the larger one counts."
        ),
    ] = None
    sasl_login_read_timeout_ms: Annotated[
        int | None,
        milliseconds("The longest request to the token endpoint, up to the last byte of the response; None for 10 s."),
    ] = None
    sasl_login_retry_backoff_ms: Annotated[int, milliseconds("The first pause after a token provider has failed.")] = (
        100
    )
    sasl_login_retry_backoff_max_ms: Annotated[
        int, milliseconds("The longest pause after a token provider has failed.")
    ] = 10_000
    sasl_login_refresh_window_factor: Annotated[
        float, Option("The part of its lifetime after which a token is replaced.", minimum=0.5, maximum=1.0)
    ] = 0.8
    sasl_login_refresh_window_jitter: Annotated[
        float, Option("A random part of the lifetime, up to this one, is added to it.", minimum=0.0, maximum=0.25)
    ] = 0.05
    sasl_login_refresh_min_period_seconds: Annotated[int, seconds("How long a token is kept at least.", 0, 900)] = 60
    sasl_login_refresh_buffer_seconds: Annotated[
        int, seconds("How long before it expires a token is replaced at the latest.", 0, 3_600)
    ] = 300
    sasl_login_callback_handler_class: Annotated[
        str | None,
        Option("Accepted as in Java and not needed: the other options say where tokens come from.", choices=HANDLERS),
    ] = None

    sasl_kerberos_service_name: Annotated[
        str | None,
        Option(
            'The service of the brokers\' principals, as "kafka" of kafka/HOST; or serviceName in sasl_jaas_config.'
        ),
    ] = None
    sasl_kerberos_kinit_cmd: Annotated[
        str,
        Option("The command that renews a ticket cache named by sasl_jaas_config, with -R; a keytab needs none."),
    ] = KINIT
    sasl_kerberos_ticket_renew_window_factor: Annotated[
        float,
        Option("The part of their lifetime after which that command renews tickets.", minimum=0.0, maximum=1.0),
    ] = 0.8
    sasl_kerberos_ticket_renew_jitter: Annotated[
        float, Option("A random part of the lifetime, up to this one, is added to it.", minimum=0.0, maximum=1.0)
    ] = 0.05
    sasl_kerberos_min_time_before_relogin: Annotated[
        int, milliseconds("How long tickets are kept at least before that command renews them.")
    ] = 60_000

    sasl_client_callback_handler_class: Annotated[
        str | None,
        Option("Accepted as in Java and not needed: Amazon's class for AWS_MSK_IAM.", choices=(None, HANDLER)),
    ] = None

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in with SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def protocol(self) -> str:
        """The security protocol in capitals."""
        return self.security_protocol.upper()

    @property
    def tls(self) -> TlsSettings:
        """The options of TLS, as `kclient.security` takes them."""
        return TlsSettings(
            option=str,
            truststore_location=self.ssl_truststore_location,
            truststore_certificates=self.ssl_truststore_certificates,
            truststore_password=secret(self.ssl_truststore_password),
            keystore_location=self.ssl_keystore_location,
            keystore_password=secret(self.ssl_keystore_password),
            keystore_certificate_chain=self.ssl_keystore_certificate_chain,
            keystore_key=secret(self.ssl_keystore_key),
            key_password=secret(self.ssl_key_password),
            enabled_protocols=names(self.ssl_enabled_protocols),
            cipher_suites=names(self.ssl_cipher_suites),
        )
