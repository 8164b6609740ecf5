"""An application's test with TLS and a certificate for each client: `pytest examples/test_with_tls.py`.

Needs `pip install 'kclient[tls]'`. The fixture's broker makes throw-away certificates, and `client_options` contains
what a client needs for them.
"""

import pytest

from kclient import Admin, Producer
from kclient.errors import SslAuthenticationError
from refbroker.testing import RefBroker


@pytest.mark.refbroker(tls=True, ssl_client_auth="required")
def test_only_clients_with_a_certificate_are_served(refbroker: RefBroker) -> None:
    with Producer(**refbroker.client_options) as producer:
        producer.send("orders", b"42").result(timeout=10)

    chain, key = refbroker.certificates.issue("alice")
    alice = {**refbroker.client_options, "ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
    with Admin(**alice) as admin:
        assert "orders" in admin.list_topics()

    stranger = {name: value for name, value in alice.items() if "keystore" not in name}
    with Admin(**stranger) as admin, pytest.raises(SslAuthenticationError, match="without a certificate"):
        admin.list_topics()
