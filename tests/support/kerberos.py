"""A Kerberos realm on the loopback interface: MIT's key distribution center (KDC), with its database in a directory.

Nothing outside of the directory is used or changed: processes find the realm by the variables in `environment`. What
must be on the machine is in `unavailable_reason`. Elsewhere: a stand-in without Kerberos (`fake_gssapi`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.kafka.cluster import free_ports
from tests.support.patience import PROCESS
from tests.support.waiting import wait_until

REALM = "KCLIENT.TEST"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"))

_CLIENT_CONFIG = """
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 default_ccache_name = FILE:{directory}/tickets
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
[logging]
 kdc = FILE:{directory}/kdc.log
 admin_server = FILE:{directory}/kadmin.log
"""
_KDC_CONFIG = """
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  max_life = 1h
  max_renewable_life = 1d
 }}
"""


def unavailable_reason() -> str | None:
    """Return why no realm can run here; None if one can."""
    lacking = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    if lacking:
        return (
            f"Kerberos is optional here: {lacking[0]} comes with apt-get install krb5-kdc krb5-admin-server krb5-user"
        )
    if importlib.util.find_spec("gssapi") is None:
        return "Kerberos is optional here: gssapi comes with apt-get install libkrb5-dev; pip install 'kclient[gssapi]'"
    return None


class Realm:
    """A realm with its KDC as a context manager.

    Parameters:
        directory: an empty one for its files.

    Attributes:
        environment: variables by which a process finds the realm.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        config = directory / "krb5.conf"
        values = {"realm": REALM, "directory": directory, "port": self._port}
        config.write_text(_CLIENT_CONFIG.format(**values))
        (directory / "kdc.conf").write_text(_KDC_CONFIG.format(**values))
        self.environment = {
            "KRB5_CONFIG": str(config),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(directory),
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={config}",
        }

    def __enter__(self) -> Self:
        self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the KDC, unless it runs."""
        if self._process is not None:
            return
        with open(self._directory / "out.log", "ab") as output:
            self._process = subprocess.Popen(
                [_program("krb5kdc"), "-n"], env=self._variables(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        wait_until(self._responds, PROCESS)

    def stop(self) -> None:
        """Stop the KDC, so that it cannot be reached."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PROCESS)
            self._process = None

    def keytab(self, *principals: str, **limits: str) -> Path:
        """Add principals with random keys, and return a keytab with them.

        Parameters:
            limits: options of a principal, as maxlife="10 seconds".
        """
        path = self._directory / f"{'-'.join(principals).replace('/', '_')}.keytab"
        options = [part for name, value in limits.items() for part in (f"-{name}", value)]
        for principal in principals:
            self._run("kadmin.local", "addprinc", "-randkey", *options, principal)
            self.add_keys(principal, path)
        return path

    def add_keys(self, principal: str, keytab: Path) -> None:
        """Make new keys of a principal, and add them to a keytab, which keeps the previous ones."""
        self._run("kadmin.local", "ktadd", "-k", str(keytab), principal)

    def change_keys(self, principal: str) -> None:
        """Replace the keys of a principal, so that those in its keytab are old."""
        self._run("kadmin.local", "cpw", "-randkey", principal)

    def kinit(self, *arguments: str) -> None:
        """Get a ticket into a ticket cache."""
        self._run("kinit", *arguments)

    def ticket_requests(self, principal: str) -> int:
        """Return how often the KDC has issued an initial ticket for a principal."""
        lines = (self._directory / "kdc.log").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f"{principal}@{REALM}" in line for line in lines)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program), *arguments], env=self._variables(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=PROCESS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _responds(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "kdc.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=PROCESS).close()
        except OSError:
            return False
        return True


def _program(name: str) -> str:
    return shutil.which(name, path=_PATH) or name
