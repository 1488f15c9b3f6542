"""The link by TLS: to a manager whose certificate it was told to trust, and to no other."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.link import Link
from scaler.model.errors import BadInput
from tests.link.manager import Manager, make_orders, serve, until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=manager", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return key, certificate


def test_a_manager_is_trusted_by_its_certificate(join: Callable[..., Link], tmp_path: Path) -> None:
    key, certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serve(Manager(orders=make_orders(3)), context) as manager:
        url = manager.url.replace("http:", "https:")
        stranger = join(url=url, folder=tmp_path / "stranger")
        until(lambda: "TLS" in stranger.status().fault)
        assert "CERTIFICATE_VERIFY_FAILED" in stranger.status().fault
        assert not manager.asked
        friend = join(url=url, folder=tmp_path / "friend", ca_file=certificate)
        friend.report("parse", [{"time": 1.0, "kind": "HELD", "reason": "x"}])
        manager.until(lambda: len(manager.rows) == 1 and ("count", 3) in manager.acknowledged)
        until(lambda: friend.status().fault == "")


def test_certificates_that_cannot_be_read_are_refused(join: Callable[..., Link], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the certificates to trust cannot be read"):
        join(url="https://127.0.0.1:9", ca_file=tmp_path / "none.pem")
