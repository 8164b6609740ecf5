"""The keyword options of every client, for editors and type checkers.

Names and types only: meaning, default, unit and range are in `kclient.config`, which also checks the values; a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from kclient.config import ConnectivityCallback, StallCallback
from kclient.security.oauth.settings import TokenProvider
from kclient.security.secret import Secret
from kclient.serialization import Deserializer, Serializer


class ClientOptions(TypedDict, total=False):
    """Options that all clients have in common: see `kclient.config.ClientConfig`."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_dns_lookup: str
    request_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security_protocol: str
    ssl_truststore_location: str | None
    ssl_truststore_certificates: str | None
    ssl_truststore_type: str | None
    ssl_truststore_password: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str | None
    ssl_keystore_password: str | Secret | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_context: Any
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_jaas_config: str | Secret | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_ca_location: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
    sasl_login_callback_handler_class: str | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_kinit_cmd: str
    sasl_kerberos_ticket_renew_window_factor: float
    sasl_kerberos_ticket_renew_jitter: float
    sasl_kerberos_min_time_before_relogin: int
    sasl_client_callback_handler_class: str | None
    on_connectivity_change: ConnectivityCallback | None


class ProducerOptions(ClientOptions, total=False):
    """Keyword options of Producer and AsyncProducer: see `kclient.config.ProducerConfig`."""

    acks: int | str
    enable_idempotence: bool | None
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    retries: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner: Any
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    interceptors: Sequence[Any]
    transactional_id: str | None
    transaction_timeout_ms: int
    close_timeout_ms: int | None
    metadata_max_idle_ms: int


class ConsumerOptions(ClientOptions, total=False):
    """Keyword options of Consumer and AsyncConsumer: see `kclient.config.ConsumerConfig`."""

    auto_offset_reset: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_max_bytes: int
    max_poll_records: int
    check_crcs: bool
    isolation_level: str
    client_rack: str
    default_api_timeout_ms: int
    close_timeout_ms: int
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    interceptors: Sequence[Any]
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[Any]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    enable_auto_offset_store: bool
    stall_timeout_ms: int
    on_stall: StallCallback | None


class AdminOptions(ClientOptions, total=False):
    """Keyword options of Admin and AsyncAdmin: see `kclient.config.AdminConfig`."""

    default_api_timeout_ms: int
    close_timeout_ms: int
