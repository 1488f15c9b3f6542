"""`tuner serve` and `tuner token`: a service that answers and ends well, secrets, and refusals."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from scaler.model.errors import BadInput
from tests.commands import refuse, run, succeed
from tests.service.http_server import PATIENCE, running
from tests.service.serve_process import ServeProcess, hear
from tests.store.conftest import POSTGRES
from tuner.service.access.callers import look_up
from tuner.service.access.token import SECRET
from tuner.service.serving import Listening, check_listening, is_loopback, names_of
from tuner.store.connection import open_store
from tuner.store.tokens import list_tokens

TUNER = [sys.executable, "-c", "from tuner.cli import main; main()"]


@contextmanager
def serving(
    store: object, *arguments: object, daemon: bool = False, stdout: int = subprocess.DEVNULL
) -> Iterator[ServeProcess]:
    command = [*TUNER, "serve", "--port", "0", "--store", str(store), *map(str, arguments)]
    served = hear(command if daemon else [*command, "--no-daemon"], stdout)
    try:
        yield served
    finally:
        served.kill()


def make(store: object, name: str, *scopes: str) -> str:
    rights = (f"--scope={scope}" for scope in scopes)
    return succeed("token", "make", name, *rights, "--all-apps", "--store", store).strip()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_a_token_is_made_shown_once_listed_and_revoked(address: str) -> None:
    made = run(
        "token",
        "make",
        "scalers",
        "--scope",
        "report",
        "--scope",
        "read",
        "--app",
        "shop",
        "--expires",
        "30d",
        "--store",
        address,
    )
    assert made.exit_code == 0
    assert SECRET.fullmatch(made.stdout.removesuffix("\n"))
    assert "scalers may report, read of shop until 20" in made.stderr
    secret = made.stdout.strip()
    listed = json.loads(succeed("token", "list", "--json", "--store", address))
    assert [(row["name"], row["state"], row["scopes"]) for row in listed] == [("scalers", "live", ["report", "read"])]
    assert listed[0]["expires"] - listed[0]["created"] == 30 * 86_400
    assert succeed("token", "revoke", "scalers", "--store", address) == "scalers is revoked.\n"
    assert "It was before" in succeed("token", "revoke", "scalers", "--store", address)
    shown = succeed("token", "list", "--store", address)
    assert "revoked" in shown
    assert secret not in shown


def test_token_is_for_what_was_said_and_expires(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    for named in ((), ("--app", "shop", "--all-apps")):
        told = refuse("token", "make", "b", "--scope", "read", *named, "--store", store)
        assert told.startswith("say what the token is for: --app NAME for one application (repeat it")
    assert "no name for an application" in refuse("token", "make", "b", "--scope=read", "--app=a/b", "--store", store)
    made = run("token", "make", "two", "--scope=report", "--app=shop", "--app=bank", "--store", store)
    assert "two may report of bank and shop until 20" in made.stderr
    assert "Not registered yet: bank, shop." in made.stderr
    make(store, "monitor", "read")
    succeed("token", "make", "soon", "--scope=read", "--all-apps", "--expires=9d", "--store", store)
    succeed("token", "make", "ever", "--scope=read", "--all-apps", "--expires=never", "--store", store)
    listed = json.loads(succeed("token", "list", "--json", "--store", store))
    assert [(row["name"], row["state"], row["applications"]) for row in listed] == [
        ("two", "live", ["bank", "shop"]), ("monitor", "live", None), ("soon", "expires soon", None),
        ("ever", "live", None),
    ]  # fmt: skip
    ages = [row["expires"] and row["expires"] - row["created"] for row in listed]
    assert ages == [90 * 86_400, 90 * 86_400, 9 * 86_400, None]
    assert "expires soon" in succeed("token", "list", "--store", store)


def test_rotated_token_has_the_same_rights_and_a_grace(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    old = succeed("token", "make", "agents", "--scope=report", "--app=shop", "--store", store).strip()
    new = succeed("token", "rotate", "agents", "--grace=1h", "--store", store).strip()
    assert "there is no token 'x'" in refuse("token", "rotate", "x", "--store", store)
    now = time.time()
    with closing(open_store(store)) as opened:
        before, after = look_up(opened, old, now, False), look_up(opened, new, now, False)
        assert before is not None
        assert after is not None
        assert (after.name, after.scopes, after.applications) == ("agents", {"report"}, {"shop"})
        assert (before.scopes, before.applications) == (after.scopes, after.applications)
        assert look_up(opened, old, now + 3700.0, False) is None
        assert look_up(opened, new, now + 89 * 86_400.0, False) is not None
    succeed("token", "revoke", "agents", "--store", store)
    assert "is revoked or expired; make another one" in refuse("token", "rotate", "agents", "--store", store)


def test_tokens_are_refused_in_one_sentence(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    make(store, "anna", "read")
    told = refuse("token", "make", "anna", "--scope", "read", "--all-apps", "--store", store)
    assert told.startswith("there is a token 'anna' already")
    assert "12h, 30d or 26w" in refuse(
        "token", "make", "b", "--scope", "read", "--expires", "soon", "--all-apps", "--store", store
    )
    assert "above zero" in refuse(
        "token", "make", "b", "--scope", "read", "--expires", "0d", "--all-apps", "--store", store
    )
    assert "tuner token list" in refuse("token", "revoke", "nobody", "--store", store)
    assert "visible characters" in refuse("token", "make", "a\nb", "--scope", "read", "--all-apps", "--store", store)
    assert run("token", "make", "b", "--store", store).exit_code == 2
    assert run("token", "make", "b", "--scope", "write", "--all-apps", "--store", store).exit_code == 2
    assert "there is no database" in refuse("token", "list", "--store", tmp_path / "absent.db")
    open_store(tmp_path / "new.db").close()
    assert "no tokens yet" in run("token", "list", "--store", tmp_path / "new.db").stderr


def test_it_starts_answers_and_ends(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    secret = make(store, "anna", "read")
    with serving(store) as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{service.url}/healthz").status_code == 200
        assert httpx.get(f"{service.url}/v1/applications").status_code == 401
        assert httpx.get(f"{service.url}/v1/applications", headers=bearer(secret)).status_code == 200
        evil = httpx.get(f"{service.url}/v1/applications", headers={**bearer(secret), "Host": "evil.example"})
        assert evil.status_code == 421
        succeed("token", "revoke", "anna", "--store", store)
        until_refused(service.url, secret)
        assert service.stop() == 0
    assert all(isinstance(json.loads(line), dict) for line in service.told)
    assert json.loads(service.told[-1])["what"] == "stopped"


def until_refused(url: str, secret: str) -> None:
    """A token that was revoked elsewhere is believed for a second at most."""
    for _ in range(int(PATIENCE / 0.1)):
        if httpx.get(f"{url}/v1/applications", headers=bearer(secret)).status_code == 401:
            return
        threading.Event().wait(0.1)
    pytest.fail("a revoked token still lets in")


def test_ctrl_c_ends_it_as_it_ends_other_commands(tmp_path: Path) -> None:
    with serving(tmp_path / "tuner.db") as service:
        assert json.loads(service.told[0])["what"] == "no token"
        assert service.stop(signal.SIGINT) == 130
    assert service.told[-1].strip() == "Interrupted."
    assert "Traceback" not in "".join(service.told)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_with_the_daemon_beside_it_it_ends_as_well(tmp_path: Path, number: int, code: int) -> None:
    with serving(tmp_path / "tuner.db", daemon=True) as service:
        assert httpx.get(f"{service.url}/login").status_code == 200
        assert service.stop(number) == code
    assert "Traceback" not in "".join(service.told)
    assert sum("Interrupted." in line for line in service.told) == (number == signal.SIGINT)


def test_who_waits_for_orders_is_answered_when_it_ends(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    secret = make(store, "scalers", "report")
    with (
        serving(store, "--verbose") as service,
        ThreadPoolExecutor(4) as pool,
        httpx.Client(timeout=PATIENCE) as client,
    ):
        asked = f"{service.url}/v1/applications/shop/orders?wait=60"
        answers = [pool.submit(client.get, asked, headers=bearer(secret)) for _ in range(4)]
        for _ in range(int(PATIENCE / 0.05)):
            threading.Event().wait(0.05)
            if not any(answer.done() for answer in answers) and count_connections(service) >= 4:
                break
        assert client.get(f"{service.url}/healthz").status_code == 200  # accepted after the others, so these are too
        assert service.stop() == 0
        assert {answer.result(PATIENCE).status_code for answer in answers} <= {304, 404, 503}


def count_connections(service: ServeProcess) -> int:
    """Of the service, as the system has them."""
    port = int(service.url.rpartition(":")[2])
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


def test_what_was_accepted_is_answered(tmp_path: Path) -> None:
    app, begun, go_on = FastAPI(openapi_url=None), threading.Event(), threading.Event()

    @app.get("/slow")
    def slow() -> str:
        begun.set()
        assert go_on.wait(PATIENCE)
        return "answered"

    with ThreadPoolExecutor(1) as pool:
        with running(app, on_stop=go_on.set) as url:
            answer = pool.submit(httpx.get, f"{url}/slow", timeout=PATIENCE)
            assert begun.wait(PATIENCE)
        assert answer.result(PATIENCE).json() == "answered"


def test_a_port_in_use_is_said_in_one_sentence(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        port = sock.getsockname()[1]
        told = refuse("serve", "--port", port, "--store", tmp_path / "tuner.db")
    assert told == f"port {port} of 127.0.0.1 is in use; choose another with --port, or 0 for any"


def test_it_is_heard_elsewhere_only_by_tokens_and_under_tls(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    told = refuse("serve", "--host", "0.0.0.0", "--port", 0, "--store", store)
    assert "there is no token that lets anybody in" in told
    make(store, "anna", "read")
    assert "--tls-cert" in refuse("serve", "--host", "0.0.0.0", "--port", 0, "--store", store)
    assert "--tls-cert" in refuse("serve", "--host", "::", "--port", 0, "--store", store)
    check_listening(Listening("0.0.0.0", proxy="127.0.0.1"), 1)
    with pytest.raises(BadInput, match="no token"):
        check_listening(Listening("0.0.0.0", proxy="127.0.0.1"), 0)
    succeed("token", "revoke", "anna", "--store", store)
    assert "there is no token" in refuse("serve", "--host", "0.0.0.0", "--behind-proxy", "--port", 0, "--store", store)


def test_what_is_wrong_with_names_and_files_is_said(tmp_path: Path) -> None:
    store, other = tmp_path / "tuner.db", tmp_path / "other.pem"
    other.write_text("no certificate")
    missing = tmp_path / "cert.pem"
    assert (
        refuse("serve", "--tls-cert", missing, "--store", store)
        == f"--tls-cert is {missing}, and there is no such file"
    )
    assert "in PEM form" in refuse("serve", "--tls-cert", other, "--tls-key", other, "--store", store)
    assert "--tls-cert" in refuse("serve", "--tls-key", other, "--store", store)
    for name in ("http://tuner.demo", "tuner.demo:80", "*", ""):
        assert "must be a name alone" in refuse("serve", "--host-name", name, "--store", store)
    assert "no address of that name" in refuse("serve", "--host", "no.such.host.invalid", "--store", store)


def test_the_loopback_is_known_by_its_addresses() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "192.0.2.1", "::"]))
    assert names_of(Listening("192.0.2.1", host_names=("tuner.demo",))) == ("tuner.demo", "192.0.2.1")
    assert names_of(Listening("0.0.0.0")) == ()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificate and key in one file, of this machine for itself."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True, timeout=PATIENCE)
    cert.write_text(cert.read_text() + key.read_text())
    return cert


def test_it_speaks_tls_and_its_cookies_go_nowhere_else(tmp_path: Path, certificate: Path) -> None:
    import ssl

    store = tmp_path / "tuner.db"
    secret = make(store, "anna", "read")
    trusting = ssl.create_default_context(cafile=str(certificate))
    with (
        serving(store, "--tls-cert", certificate) as service,
        httpx.Client(base_url=service.url, verify=trusting) as client,
    ):
        assert service.url.startswith("https://")
        assert client.get("/v1/applications", headers=bearer(secret)).status_code == 200
        entered = client.post("/login", data={"token": secret}, headers={"Origin": service.url})
        assert entered.status_code == 303
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith("__Host-tuner=tp_")
        assert "; Secure" in cookie
        assert client.get("/").status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(service.url.replace("https", "http") + "/healthz")
        assert service.stop() == 0
    assert "Traceback" not in "".join(service.told)


def test_a_key_with_a_password_is_refused_not_asked_for(tmp_path: Path, certificate: Path) -> None:
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkcs8", "-topk8", "-v2", "aes-128-cbc", "-passout", "pass:abcdef", "-in", str(certificate)]
    subprocess.run([*command, "-out", str(locked)], check=True, capture_output=True, timeout=PATIENCE)
    told = refuse("serve", "--tls-cert", certificate, "--tls-key", locked, "--store", tmp_path / "tuner.db")
    assert "is locked with a password" in told


def read_all(master: int) -> str:
    """What went to a terminal whose programs have ended."""
    text = b""
    while True:
        try:
            more = os.read(master, 65_536)
        except OSError:  # how Linux says that nobody is at the other end
            more = b""
        if not more:
            return text.decode()
        text += more


def test_the_first_token_is_shown_to_a_person_and_once(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    shown = []
    for _ in range(2):
        master, slave = pty.openpty()
        with serving(store, stdout=slave) as service:
            os.close(slave)
            assert service.stop() == 0
        shown.append(read_all(master))
        os.close(master)
        assert not SECRET.search("".join(service.told))
    found = SECRET.findall(shown[0])
    assert len(found) == 1
    assert not SECRET.search(shown[1])
    with closing(open_store(store)) as opened, opened.read() as session:
        assert [(token.name, token.scopes) for token in list_tokens(session)] == [("first", "report read tune push")]


def test_the_first_token_is_shown_to_no_file(tmp_path: Path) -> None:
    store = tmp_path / "tuner.db"
    with (tmp_path / "out").open("w") as out, serving(store, stdout=out.fileno()) as service:
        assert service.stop() == 0
    assert (tmp_path / "out").read_text() == ""
    assert "tuner token make" in service.told[0]
    assert json.loads(succeed("token", "list", "--json", "--store", store) or "[]") == []


@POSTGRES
def test_nothing_that_it_tells_has_a_secret(postgres: str) -> None:
    from tests.store.conftest import make_database

    password = "pa55-w@rd"
    url = make_database(postgres).replace("postgresql://postgres:@", "postgresql://postgres@")
    store = url.replace("postgres@", "postgres:pa55-w%40rd@", 1)
    assert store != url
    secret = make(store, "anna", "read", "push")
    with serving(store, "--verbose") as service, httpx.Client(base_url=service.url) as client:
        cookie = client.post("/login", data={"token": secret}, headers={"Origin": service.url}).cookies["tuner"]
        for path in (f"/v1/applications?token={secret}", f"/{secret}", "/v1/applications", "/"):
            client.get(path, headers=bearer(secret))
            client.get(path, headers=bearer(secret[:-1]))
        assert service.stop() == 0
    told = "".join(service.told)
    assert '"request"' in told
    hidden = (secret, secret[:-1], cookie, password, "pa55-w%40rd", "Bearer ts_")
    assert [one for one in hidden if one in told] == []


def test_help_has_an_example() -> None:
    for arguments in (["serve"], ["token"], ["token", "make"], ["token", "list"], ["token", "revoke"]):
        assert "Example" in succeed(*arguments, "--help")
