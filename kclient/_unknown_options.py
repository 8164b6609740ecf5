"""Error messages for options that do not exist: what the user may have meant.

Two tables give the name that an option of another client has here, and what to use in place of an option that has no
counterpart. The names are those of the Java client, librdkafka (confluent-kafka), kafka-python and aiokafka, in lower
case with underscores. Elsewhere: the options that exist, and wrong values (`config`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

ELSEWHERE = {
    "api_timeout_ms": "default_api_timeout_ms",
    "auto_commit_enable": "enable_auto_commit",
    "auto_commit_offset_reset": "auto_offset_reset",
    "bootstrap_server": "bootstrap_servers",
    "broker": "bootstrap_servers",
    "broker_list": "bootstrap_servers",
    "brokers": "bootstrap_servers",
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "consumer_group": "group_id",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group": "group_id",
    "hosts": "bootstrap_servers",
    "interceptor_classes": "interceptors",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "partition_assignors": "partition_assignment_strategy",
    "partitioner_class": "partitioner",
    "queue_buffering_max_ms": "linger_ms",
    "rack": "client_rack",
    "request_required_acks": "acks",
    "https_ca_location": "sasl_oauthbearer_ca_location",
    "oauth_cb": "sasl_oauth_token_provider",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauthbearer_client_id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "server": "bootstrap_servers",
    "servers": "bootstrap_servers",
    "socket_connection_timeout_ms": "socket_connection_setup_timeout_ms",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_timeout_ms": "request_timeout_ms",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_certfile": "ssl_keystore_certificate_chain",
    "ssl_certificate_location": "ssl_keystore_certificate_chain",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
    "ssl_ciphers": "ssl_cipher_suites",
    "ssl_key_location": "ssl_keystore_key",
    "ssl_key_pem": "ssl_keystore_key",
    "ssl_keyfile": "ssl_keystore_key",
    "ssl_password": "ssl_key_password",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    "transaction_id": "transactional_id",
}
"""Options that have another name in other clients."""

_VERSIONS = "the protocol versions are negotiated with each broker"
_METRICS = "metrics() returns the current values at any time"
_LOGGING = "use Python's logging, with the logger 'kclient'"
_SOCKETS = "the client opens its own sockets"
_TOPICS = 'pass topics where they are used: Consumer("orders", ...), send("orders", ...)'
_PROXY = "the client connects directly to the brokers"
_OPENSSL = "TLS is that of Python's ssl module; pass ssl_context for settings that have no option"
_UNSECURED = 'unsecured tokens are for tests: sasl_jaas_config="... OAuthBearerLoginModule required unsecuredLogin...;"'
_KEYTAB = 'sasl_jaas_config=\'... Krb5LoginModule required useKeyTab=true keyTab="PATH" principal="NAME";\''
_CLAIMS = "only brokers check the claims of a token"

INSTEAD = {
    "api_version": _VERSIONS,
    "api_version_auto_timeout_ms": _VERSIONS,
    "api_version_fallback_ms": _VERSIONS,
    "api_version_request": _VERSIONS,
    "api_version_request_timeout_ms": _VERSIONS,
    "auto_include_jmx_reporter": _METRICS,
    "background_event_cb": "errors are raised from the calls",
    "batch_num_messages": "batch_size bounds a batch, in bytes",
    "bootstrap_timeout_ms": "pass a timeout in seconds to the calls that wait",
    "broker_version_fallback": _VERSIONS,
    "compression_level": "use compression_gzip_level, compression_lz4_level or compression_zstd_level",
    "consumer_timeout_ms": "poll(timeout=seconds) returns without records when none arrived; iteration keeps waiting",
    "debug": _LOGGING,
    "default_offset_commit_callback": "commit_async(callback=) receives the result of each commit",
    "delivery_report_only_error": "send(on_delivery=) receives the result of each record, and flush() raises errors",
    "dr_cb": "send(on_delivery=) receives the result of each record",
    "dr_msg_cb": "send(on_delivery=) receives the result of each record",
    "enable_ssl_certificate_verification": "certificates are always verified; "
    "ssl_endpoint_identification_algorithm decides whether for the host as well",
    "enable_incremental_fetch_sessions": "fetch sessions are always used if the broker supports them",
    "enable_metrics_push": _METRICS,
    "enable_partition_eof": "health() and current_lag() show when a partition has been read to its end",
    "error_cb": "errors are raised from the calls",
    "kafka_client": _SOCKETS,
    "enable_sasl_oauthbearer_unsecure_jwt": _UNSECURED,
    "log_cb": _LOGGING,
    "log_level": _LOGGING,
    "logger": _LOGGING,
    "loop": "an async client uses the event loop that it is opened in",
    "metric_group_prefix": _METRICS,
    "metric_reporters": _METRICS,
    "metrics_enabled": _METRICS,
    "metrics_num_samples": _METRICS,
    "metrics_recording_level": _METRICS,
    "metrics_sample_window_ms": _METRICS,
    "offset_commit_cb": "commit_async(callback=) receives the result of each commit",
    "on_commit": "commit_async(callback=) receives the result of each commit",
    "on_delivery": "send(on_delivery=) receives the result of each record",
    "proxy_url": _PROXY,
    "queue_buffering_max_kbytes": "buffer_memory limits the bytes that wait to be sent",
    "queue_buffering_max_messages": "buffer_memory limits the bytes that wait to be sent",
    "queued_max_messages_kbytes": "prefetch_max_bytes limits the bytes that are fetched ahead",
    "queued_min_messages": "prefetch_max_bytes limits the bytes that are fetched ahead",
    "rebalance_cb": "subscribe(topics, listener=) takes a RebalanceListener",
    "rebalance_timeout_ms": "max_poll_interval_ms applies to rebalances as well",
    "receive_message_max_bytes": "fetch_max_bytes and max_partition_fetch_bytes limit the size of a fetch",
    "schema_registry_url": "serializers and deserializers are functions, such as those of a schema registry client",
    "sasl_kerberos_domain_name": "the broker's principal has the host of its advertised.listeners",
    "sasl_kerberos_keytab": _KEYTAB,
    "sasl_kerberos_name": "the broker's principal has the host of its advertised.listeners",
    "sasl_kerberos_principal": _KEYTAB,
    "sasl_oauthbearer_config": _UNSECURED,
    "sasl_oauthbearer_extensions": "OAuthToken(value, extensions={...}), or extension_NAME in sasl_jaas_config",
    "sasl_oauthbearer_method": "the other options of sasl_oauthbearer say where tokens come from",
    "sasl_oauthbearer_scope_claim_name": _CLAIMS,
    "sasl_oauthbearer_sub_claim_name": _CLAIMS,
    "selector": _SOCKETS,
    "socket_keepalive_enable": _SOCKETS,
    "socket_nagle_disable": _SOCKETS,
    "socket_options": _SOCKETS,
    "socks5_proxy": _PROXY,
    "security_providers": _OPENSSL,
    "ssl_crl_location": _OPENSSL,
    "ssl_crlfile": _OPENSSL,
    "ssl_engine_factory_class": _OPENSSL,
    "ssl_keymanager_algorithm": _OPENSSL,
    "ssl_protocol": "ssl_enabled_protocols names the versions of TLS to allow",
    "ssl_provider": _OPENSSL,
    "ssl_secure_random_implementation": _OPENSSL,
    "ssl_trustmanager_algorithm": _OPENSSL,
    "statistics_interval_ms": _METRICS,
    "stats_cb": _METRICS,
    "timeout": "pass a timeout in seconds to the calls that wait",
    "topic": _TOPICS,
    "topics": _TOPICS,
}
"""What to use here in place of an option of another client."""


def unknown_option(name: str, spelling: Mapping[str, str], others: Mapping[str, Iterable[str]]) -> str:
    """Return a message which says that an option does not exist, and what may be meant.

    Parameters:
        name: the name that was given.
        spelling: the existing options, with the spelling to suggest.
        others: the options of the other clients, by client.
    """
    text = f"there is no option {name!r}"
    plain = _plain(name)
    found = plain if plain in spelling else ELSEWHERE.get(plain, plain)
    if found in spelling:
        return f"{text}; did you mean {spelling[found]!r}?"
    if plain in INSTEAD:
        return f"{text}: {INSTEAD[plain]}"
    having = [client for client, options in others.items() if found in options]
    if having:
        return f"{text} here: {' and '.join(having)} have {found}"
    nearest = difflib.get_close_matches(name, list(spelling.values()), n=1, cutoff=0.6)
    return text + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def _plain(name: str) -> str:
    """Return the name as Python spells options."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[.\- ]", "_", name).lower()
