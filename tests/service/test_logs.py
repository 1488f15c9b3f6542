"""Log lines for programs and for people hold no secrets."""

from __future__ import annotations

import gc
import io
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from sqlalchemy import text

from scaler.model.errors import Retry
from tests.service.http_server import PATIENCE, running
from tests.store.conftest import POSTGRES, make_database, run_sql
from tuner.service.access.envelope import wrap
from tuner.service.access.logs import Lines, say, set_up_logs
from tuner.service.access.page_session import make_csrf
from tuner.service.access.token import PAGE_PREFIX
from tuner.store.connection import Store, open_store
from tuner.store.faults import TransientFault

# The same in every process that collects these tests, for their names hold them.
TOKEN, COOKIE, PASSWORD = f"ts_{'Ty-pZ_q' * 6}A", f"{PAGE_PREFIX}{'xo-I1_U' * 6}A", "pa ss/w@rd"
SECRETS = (TOKEN, COOKIE, PASSWORD, make_csrf(COOKIE))
LOGGER = logging.getLogger("tuner.test")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    kept, level, hook = list(root.handlers), root.level, threading.excepthook
    yield
    logging.captureWarnings(False)
    root.handlers[:], threading.excepthook = kept, hook
    root.setLevel(level)
    for name in ("tuner", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(params=[True, False], ids=["json", "plain"])
def lines(request: pytest.FixtureRequest) -> io.StringIO:
    stream = io.StringIO()
    set_up_logs(stream, request.param, True, [PASSWORD])
    return stream


TEXTS = [
    f"a token {TOKEN} in a sentence",
    f"Authorization: Bearer {TOKEN}",
    f"Authorization: Basic {'c2VjcmV0' * 3}",
    f"{{'authorization': 'Bearer {'c2VjcmV0' * 3}', 'host': 'here'}}",
    f"[(b'authorization', b'Bearer {'c2VjcmV0' * 3}'), (b'host', b'here')]",
    f"bearer {'c2VjcmV0' * 3}",
    "Cookie: tuner=c2VjcmV0; other=c2VjcmV0",
    "set-cookie: __Host-tuner=c2VjcmV0; HttpOnly",
    "X-CSRF-Token: c2VjcmV0",
    "POST /act?csrf=c2VjcmV0&why=no",
    "GET /look?token=c2VjcmV0",
    "postgresql://tuner:c2VjcmV0@db.internal/tuner",
    "postgresql+psycopg://:c2VjcmV0@db.internal/tuner?sslpassword=c2VjcmV0",
    f"password authentication with {PASSWORD} failed",
    "with pa%20ss%2Fw%40rd in a URL, or pa+ss%2Fw%40rd",
]


def is_clean(text: str) -> bool:
    return not any(secret in text for secret in (*SECRETS, "c2VjcmV0", "pa%20ss", "pa+ss"))


@pytest.mark.parametrize("text", TEXTS)
def test_no_line_has_a_secret_wherever_it_stood(lines: io.StringIO, text: str) -> None:
    say(LOGGER, logging.INFO, "tried", text)
    say(LOGGER, logging.INFO, "tried", "fields", one=text, deep={"list": [text], text: 1}, error=Retry(text))
    LOGGER.warning("of a library: %s", text)
    try:
        raise Retry(text)
    except Retry:
        LOGGER.exception("a traceback")
    assert "Traceback" in lines.getvalue()
    assert is_clean(lines.getvalue()), lines.getvalue()


@pytest.mark.parametrize(
    "text", ["3 token buckets", "a bearer token is needed", "10:30 @ noon", "http://127.0.0.1:8321/a@b"]
)
def test_what_is_no_secret_stays(lines: io.StringIO, text: str) -> None:
    say(LOGGER, logging.INFO, "tried", text)
    assert text in lines.getvalue()


def test_programs_get_a_line_of_json_for_each_event() -> None:
    stream = io.StringIO()
    set_up_logs(stream)
    say(LOGGER, logging.INFO, "pushed", "objective 3 is in shadow", app="shop\n", version=3, cost=float("nan"))
    say(LOGGER, logging.DEBUG, "detail", "only for those who want all")
    try:
        raise Retry("the database\nis away")
    except Retry:
        logging.getLogger("elsewhere").exception("failed")
    events = [json.loads(line, parse_constant=pytest.fail) for line in stream.getvalue().splitlines()]
    assert [event["what"] for event in events] == ["pushed", "elsewhere"]
    first, second = events
    assert (first["level"], first["message"], first["app"], first["version"]) == (
        "info",
        "objective 3 is in shadow",
        "shop\n",
        3,
    )
    assert first["time"].endswith("+00:00")
    assert "the database\nis away" in second["trace"]


def lose_connection(store: Store, server: str) -> None:
    """Read rows of which the server ends the connection."""
    with store.read() as session:
        own = session.scalar(text("SELECT pg_backend_pid()"))
        rows = session.execute(text("SELECT generate_series(1, 1000)").execution_options(yield_per=10))
        rows.fetchone()
        run_sql(server, f"SELECT pg_terminate_backend({own})")
        rows.close()
        session.scalar(text("SELECT 1"))


@POSTGRES
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ServerCursor:ResourceWarning")  # psycopg's own: it cannot be closed any more
def test_lost_connection_leaves_one_line(postgres: str) -> None:
    stream = io.StringIO()
    with closing(open_store(make_database(postgres))) as store:
        set_up_logs(stream, as_json=True)
        with pytest.raises(TransientFault):
            lose_connection(store, postgres)
        gc.collect()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert any("terminat" in line.get("cause", "") for line in lines), lines
    assert not any("trace" in line for line in lines), lines


def test_people_get_a_line_that_no_name_can_break() -> None:
    stream = io.StringIO()
    set_up_logs(stream, as_json=False)
    say(LOGGER, logging.WARNING, "asked", "GET /\x1b[2J\r\n12:00:00 info forged", app="é\x9b", none=None)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\\x1b[2J\\x0d\\x0a12:00:00" in text
    assert text.isascii() or "é" in text
    assert "none" not in text


def test_a_terminal_gets_lines_and_a_file_json(tmp_path: Path) -> None:
    assert Lines(False).format(logging.makeLogRecord({"msg": "a", "levelname": "INFO"})).endswith("info    a")
    with (tmp_path / "log").open("w") as stream:
        set_up_logs(stream)
        LOGGER.warning("a")
    assert json.loads((tmp_path / "log").read_text())["message"] == "a"


def test_a_thread_that_fails_says_so_without_secrets(lines: io.StringIO) -> None:
    def fail() -> None:
        raise Retry(f"postgresql://tuner:{PASSWORD}@host is away")

    thread = threading.Thread(target=fail, name="retuning")
    thread.start()
    thread.join(PATIENCE)
    assert "retuning ended by an error" in lines.getvalue()
    assert is_clean(lines.getvalue())


def test_no_request_leaves_a_secret(lines: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was put, also where the application fails at it; uvicorn's own lines of requests switched on."""
    app = FastAPI(openapi_url=None)

    @app.post("/{name}")
    async def fail(name: str, request: Request) -> None:
        raise RuntimeError(
            f"{name} {request.headers} {request.scope['headers']} {request.url} {await request.body()!r}"
        )

    usual = uvicorn.Config.__init__

    def with_access_log(self: uvicorn.Config, *given: object, **named: object) -> None:
        usual(self, *given, **{**named, "access_log": True})  # type: ignore[arg-type]

    monkeypatch.setattr(uvicorn.Config, "__init__", with_access_log)
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "propagate", True)
    with running(wrap(app)) as url, httpx.Client(base_url=url) as client:
        headers = {"Authorization": f"Bearer {TOKEN}", "Cookie": f"tuner={COOKIE}", "X-CSRF-Token": make_csrf(COOKIE)}
        answer = client.post(
            f"/{TOKEN}?token={TOKEN}", headers=headers, content=f"csrf={make_csrf(COOKIE)}&token={TOKEN}"
        )
        assert answer.status_code == 500
    assert "RuntimeError" in lines.getvalue()
    assert "HTTP/1.1" in lines.getvalue()
    assert is_clean(lines.getvalue()), lines.getvalue()
