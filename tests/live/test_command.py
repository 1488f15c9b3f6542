"""A program and an HTTP server of the user's, as actuators: real processes, real sockets on loopback."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scaler.acting.actuator import Calls, Room, TargetOrder, read_replicas
from scaler.acting.command import MAX_OUTPUT, Command, fill_argv, run_bounded
from scaler.acting.webhook import Webhook
from scaler.agent.decider import Decider
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent
from scaler.model.errors import BadInput, Retry
from tests.live.plant import NODES, SLOT_S, Desk, Plant
from tests.live.wait import await_true

PROGRAM = str(Path(__file__).with_name("program.py"))


def is_idle(calls: Calls, operator: str) -> bool:
    """Whether the newest target was accepted, or refused for good."""
    with calls.changed:
        queue = calls.queues.get(operator)
        return queue is None or queue.closed == queue.number


def argv(folder: Path) -> list[str]:
    return [sys.executable, PROGRAM, str(folder), "{verb}"]


def orders(folder: Path) -> list[dict[str, Any]]:
    path = folder / "orders.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_program_is_told_the_whole_order_and_says_what_there_is(tmp_path: Path) -> None:
    command = Command("shop", argv(tmp_path))
    assert command.deployed("count") == {}
    command.apply("count", {"small": 2, "large": 1})
    await_true(lambda: is_idle(command.calls, "count"))
    assert command.deployed("count") == {"small": 2, "large": 1}
    asked, scale, _ = orders(tmp_path)
    assert (asked["verb"], "target" in asked) == ("deployed", False)
    assert scale["target"] == {"small": 2, "large": 1}
    assert (scale["verb"], scale["application"], scale["operator"]) == ("scale", "shop", "count")
    assert len(scale["key"]) == 32
    command.close()
    with pytest.raises(Retry, match="closed"):
        command.apply("count", {"small": 1})


def test_a_subclass_may_clamp_what_is_applied(tmp_path: Path) -> None:
    class Clamped(Command):
        def apply(self, operator: str, target: Mapping[str, int]) -> None:
            super().apply(operator, {name: min(count, 1) for name, count in target.items()})

    command = Clamped("shop", argv(tmp_path))
    command.apply("count", {"small": 2})
    await_true(lambda: is_idle(command.calls, "count"))
    assert command.deployed("count") == {"small": 1}


def test_placeholders_are_filled_for_each_node_type_and_no_shell_reads_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["{application}", "{operator}/{node_type}", "{replicas}", "{key}", '{"not": "one"}', "$(touch no)"]
    line = f"import sys; open({str(out)!r}, 'a').write(repr(sys.argv[1:]) + chr(10))"
    command = Command("shop", [sys.executable, "-c", line, *words])
    command.apply("{key}; rm", {"small": 2, "large": 0})
    await_true(lambda: is_idle(command.calls, "{key}; rm"))
    key = command.calls.queues["{key}; rm"].order.key
    assert out.read_text().splitlines() == [
        repr(["shop", f"{{key}}; rm/{name}", str(count), key, '{"not": "one"}', "$(touch no)"])
        for name, count in (("small", 2), ("large", 0))
    ]
    assert command.deployed("count") is None  # nobody told it how to ask
    command.close()


@pytest.mark.parametrize("operator", ["--config=/x", "-rf", "-"])
def test_operator_name_becomes_no_option_of_the_program(tmp_path: Path, operator: str) -> None:
    """An operator named `--config=/x` was read as an option of the user's program."""
    values = {"operator": operator, "node_type": "small"}
    for words in (["{operator}"], ["scale", "{operator}-{node_type}"]):
        with pytest.raises(BadInput, match=r"would be an option of prog; put '--' before it in argv, or write --opt"):
            fill_argv(["prog", *words], values)
    assert fill_argv(["prog", "--operator={operator}", "--", "{operator}"], values)[1:] == [
        f"--operator={operator}", "--", operator,
    ]  # fmt: skip
    line = f"open({str(tmp_path / 'out')!r}, 'a')"
    command = Command("shop", [sys.executable, "-c", line, "{operator}"])
    command.apply(operator, {"small": 1})
    await_true(lambda: is_idle(command.calls, operator))
    assert not (tmp_path / "out").exists()
    command.close()


def test_asking_returns_at_once_and_the_newest_target_wins(tmp_path: Path) -> None:
    (tmp_path / "sleep").write_text("0.5")
    command = Command("shop", argv(tmp_path))
    began = time.monotonic()
    command.apply("count", {"small": 1})
    await_true(lambda: len(orders(tmp_path)) == 1)  # under way
    for count in range(2, 30):
        command.apply("count", {"small": count})
    command.apply("count", {"small": 29})  # the same again is no other order
    assert time.monotonic() - began < 30.0
    await_true(lambda: is_idle(command.calls, "count"))
    told = orders(tmp_path)
    assert [order["target"] for order in told] == [{"small": 1}, {"small": 29}]
    assert told[1]["time"] - told[0]["time"] >= 0.5  # one call at a time
    command.close()


def test_a_passing_fault_is_tried_again_with_the_same_key(tmp_path: Path) -> None:
    (tmp_path / "exit").write_text("75")
    command = Command("shop", argv(tmp_path), pause=0.05)
    command.apply("count", {"small": 1})
    await_true(lambda: len(orders(tmp_path)) >= 3)
    room = command.check_room("count", {"small": 2})
    assert room.places == {"small": 0}
    assert room.why.endswith("for operator 'count' exited with 75: the cloud says no")
    assert command.deployed("count") is None
    (tmp_path / "exit").unlink()
    await_true(lambda: is_idle(command.calls, "count"))
    assert command.check_room("count", {"small": 2}) == Room({"small": 2})
    assert len({order["key"] for order in orders(tmp_path) if order["verb"] == "scale"}) == 1
    command.close()


def test_a_refusal_is_not_tried_again_until_another_order(tmp_path: Path) -> None:
    (tmp_path / "exit").write_text("64")
    command = Command("shop", argv(tmp_path), pause=0.01)
    command.apply("count", {"small": 1})
    await_true(lambda: is_idle(command.calls, "count"))
    assert "the order is refused" in str(command.calls.queues["count"].fault)
    assert command.check_room("count", {"small": 2}).places == {"small": 2}  # only another order can show it mended
    (tmp_path / "exit").unlink()
    command.apply("count", {"small": 1})
    await_true(lambda: command.deployed("count") == {"small": 1})
    first, second = [order["key"] for order in orders(tmp_path) if order["verb"] == "scale"]
    assert first != second
    command.close()


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    line = "echo $$ > pid; sleep 60 & echo $! >> pid; wait"
    began = time.monotonic()
    code, _, _ = run_bounded(["sh", "-c", f"cd {tmp_path}; {line}"], b"", 1.0)
    assert code is None
    assert time.monotonic() - began < 30.0
    numbers = (tmp_path / "pid").read_text().split()

    def ended(number: str) -> bool:
        try:
            return Path("/proc", number, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except FileNotFoundError:
            return True

    assert len(numbers) == 2
    await_true(lambda: all(ended(number) for number in numbers))


def test_output_is_bounded_and_what_is_left_running_is_not_waited_for() -> None:
    noise = f"import sys; sys.stdout.write('x' * {20 * MAX_OUTPUT}); sys.stderr.write('y')"
    code, out, err = run_bounded([sys.executable, "-c", noise], b"", 30.0)
    assert (code, len(out), err) == (0, MAX_OUTPUT, b"y")
    code, out, _ = run_bounded(["sh", "-c", "sleep 20 & echo done"], b"", 15.0)
    assert (code, out) == (0, b"done\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("scale {operator}", "argv must be a list of words"),
        ([], "argv must be a list of words"),
        (["scale", "{op}"], r"argv has \{op\}; known are \{verb\}"),
    ],
)
def test_an_argv_that_cannot_work_is_refused(words: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Command("shop", words)


@pytest.mark.parametrize(
    ("words", "deployed", "tells"),
    [
        (["scale", "{operator}-{node_type}", "{replicas}"], None, False),
        (["scale", "{verb}", "{operator}-{node_type}"], None, False),
        (["scale", "{operator}"], None, False),
        (["scale", "{operator}-{node_type}", "{replicas}"], ["count", "{operator}"], True),
        (["scale", "{verb}", "{operator}"], None, True),
    ],
)
def test_a_command_knows_whether_it_can_tell_and_says_once_what_to_add(
    words: list[str], deployed: list[str] | None, tells: bool, caplog: pytest.LogCaptureFixture
) -> None:
    command = Command("shop", words, deployed)
    if not tells:
        assert command.deployed("count") is None
    assert command.can_count is tells
    assert [record.getMessage() for record in caplog.records] == [
        "scale cannot tell what is deployed, and without that no replicas change; "
        'add deployed=["/opt/count-replicas", "{operator}"], a program that writes {"small": 2}'
    ] * (not tells)
    command.close()


def test_a_program_that_is_not_there_is_a_refusal() -> None:
    with pytest.raises(BadInput, match="/no/such cannot be started: No such file"):
        run_bounded(["/no/such"], b"", 1.0)


@pytest.mark.parametrize(
    "told", [[], {"small": -1}, {"small": "2"}, {"small": True}, None, {"deployed": {"small": 1.0}}]
)
def test_an_answer_that_is_none_is_unknown_and_not_zero(told: Any) -> None:
    assert read_replicas(told) is None


def test_keys_differ_by_order_operator_and_run_and_not_by_attempt() -> None:
    sent: list[TargetOrder] = []
    calls = [Calls("shop", sent.append, run=run) for run in ("one", "one", "two")]
    keys = [one.make_key(operator, n) for one in calls for operator in ("a", "b") for n in (1, 2)]
    assert keys[:4] == keys[4:8]
    assert len(set(keys)) == 8


def test_a_target_under_way_is_sent_once_and_one_that_was_taken_is_sent_anew() -> None:
    sent: list[TargetOrder] = []
    may = threading.Semaphore(0)

    def send(order: TargetOrder) -> None:
        sent.append(order)
        may.acquire()

    calls = Calls("shop", send)
    for number in (1, 2):
        for _ in range(3):
            calls.put("count", {"small": 1})
        await_true(lambda number=number: len(sent) == number)  # type: ignore[misc]
        calls.put("count", {"small": 1})
        may.release()
        await_true(lambda: is_idle(calls, "count"))
    assert [order.target for order in sent] == [{"small": 1}] * 2
    assert len({order.key for order in sent}) == 2
    calls.close()


class Site:
    """What takes orders for a plant, carries each out once, and does not look after what it started."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.calls = Calls("shop", lambda order: plant.apply(order.operator, order.target))

    can_count = True

    def prepare(self) -> None:
        pass

    def deployed(self, operator: str) -> dict[str, int]:
        return {"small": self.plant.serving["small"]}

    def find_starts(self, operator: str) -> None:
        return None

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        return self.calls.check_room(operator, more)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        self.calls.put(operator, target)
        await_true(lambda: is_idle(self.calls, operator))

    def close(self) -> None:
        self.calls.close()


def run_slots(operation: Agent, plant: Plant, slots: range) -> None:
    for t in slots:
        plant.at((t + 1) * SLOT_S)
        operation.slot(t * SLOT_S, (t + 1) * SLOT_S, (t + 1) * SLOT_S)


def test_a_last_replica_that_dies_is_ordered_anew_and_no_order_is_sent_each_slot() -> None:
    plant, desk = Plant(lambda t: 300.0), Desk()
    plant.target = {"small": 0}
    site, timeouts = Site(plant), ArrivalTimeouts(default=2 * SLOT_S, back_off=8 * SLOT_S)
    operation = Agent(Decider("parse", NODES[:1]), plant, site, desk, timeouts)
    run_slots(operation, plant, range(6))
    assert (plant.asked, plant.serving) == ([{"small": 1}], {"small": 1})
    plant.target, plant.full = {"small": 0}, True  # it dies, and for a while no other can start
    run_slots(operation, plant, range(6, 20))
    assert plant.asked == [{"small": 1}] * 3
    plant.full = False
    run_slots(operation, plant, range(20, 40))
    assert plant.serving == {"small": 1}
    assert "ACTUATION_FAILED" not in desk.kinds()
    site.close()


def test_an_order_to_go_that_had_no_effect_is_sent_again_in_the_end() -> None:
    plant, desk = Plant(lambda t: 300.0), Desk()
    plant.serving = plant.target = {"small": 2}
    plant.stays = True
    site, timeouts = Site(plant), ArrivalTimeouts(default=2 * SLOT_S)
    operation = Agent(Decider("parse", NODES[:1]), plant, site, desk, timeouts)
    run_slots(operation, plant, range(2))
    assert plant.asked == [{"small": 1}]
    run_slots(operation, plant, range(2, 40))
    assert 1 < len(plant.asked) < 14
    plant.stays = False
    run_slots(operation, plant, range(40, 42))
    assert plant.serving == {"small": 1}
    site.close()


class Server(ThreadingHTTPServer):
    """Answers with what `answers` holds, the last one for ever, and writes down what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b'{"deployed": {"small": 2}}')]
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/scale"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((dict(self.headers), json.loads(body)))
        answers = self.server.answers
        status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_webhook_is_posted_the_order_with_its_key_and_token(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    webhook = Webhook("shop", server.url, str(token))
    webhook.apply("count", {"small": 2})
    await_true(lambda: is_idle(webhook.calls, "count"))
    token.write_text("second\n")
    assert webhook.deployed("count") == {"small": 2}
    (headers, order), (later, query) = server.asked
    assert (headers["Authorization"], later["Authorization"]) == ("Bearer first", "Bearer second")
    assert headers["Idempotency-Key"] == order["key"]
    assert (order["verb"], order["target"], query["verb"]) == ("scale", {"small": 2}, "deployed")
    webhook.close()


def test_a_webhook_is_told_anew_what_it_took_before(server: Server) -> None:
    webhook = Webhook("shop", server.url)
    for _ in range(2):
        webhook.apply("count", {"small": 1})
        await_true(lambda: is_idle(webhook.calls, "count"))
    first, second = (headers["Idempotency-Key"] for headers, _ in server.asked)
    assert first != second
    webhook.close()


def test_a_webhook_tries_again_with_the_same_key_until_it_is_taken(server: Server) -> None:
    server.answers = [(503, {}, b""), (429, {"Retry-After": "0"}, b""), (500, {}, b"x" * 100), (204, {}, b"")]
    webhook = Webhook("shop", server.url, pause=0.02)
    webhook.apply("count", {"small": 1})
    await_true(lambda: is_idle(webhook.calls, "count"))
    assert len(server.asked) == 4
    assert len({headers["Idempotency-Key"] for headers, _ in server.asked}) == 1
    webhook.close()


def test_a_webhook_leaves_alone_whoever_asks_for_it(server: Server) -> None:
    server.answers = [(503, {"Retry-After": "3600"}, b"")]
    webhook = Webhook("shop", server.url, pause=0.01)
    webhook.apply("count", {"small": 1})
    await_true(lambda: webhook.check_room("count", {"small": 1}).why != "")
    webhook.apply("count", {"small": 2})  # another target need not wait
    await_true(lambda: len(server.asked) == 2)
    time.sleep(0.2)
    assert [order["target"]["small"] for _, order in server.asked] == [1, 2]
    webhook.close()


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 422])
def test_a_webhook_that_refuses_or_sends_elsewhere_is_not_asked_again(server: Server, status: int) -> None:
    server.answers = [(status, {"Location": server.url}, b"")]
    webhook = Webhook("shop", server.url, pause=0.01)
    webhook.apply("count", {"small": 1})
    await_true(lambda: is_idle(webhook.calls, "count"))
    assert f"answered {status}" in str(webhook.calls.queues["count"].fault)
    assert len(server.asked) == 1
    assert webhook.deployed("count") is None
    webhook.close()


@pytest.mark.parametrize("content", [b"no json", b"[1]", b'{"deployed": {"small": -1}}', b"x" * (1 << 17)])
def test_a_webhook_that_tells_nonsense_tells_nothing(server: Server, content: bytes) -> None:
    server.answers = [(200, {}, content)]
    webhook = Webhook("shop", server.url)
    assert webhook.deployed("count") is None
    webhook.close()


def test_a_webhook_that_is_not_there_is_tried_again(server: Server) -> None:
    gone = Server()
    gone.server_close()
    webhook = Webhook("shop", gone.url, pause=0.02)
    webhook.apply("count", {"small": 1})
    await_true(lambda: "cannot be reached" in webhook.check_room("count", {"small": 1}).why)
    webhook.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("scaler.example/scale", "write it like"),
        ("ftp://scaler.example", "write it like"),
        ("http://127.0.0.1:99999/", "write it like"),
        ("http://me:secret@scaler.example/", "holds a user or a password"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        Webhook("shop", url)
    assert "secret" not in str(refused.value)


def test_a_token_is_never_told(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "token"
    with pytest.raises(BadInput, match="cannot be read"):
        Webhook("shop", server.url, str(path))
    path.write_text("very secret")
    with pytest.raises(BadInput, match="is no token") as refused:
        Webhook("shop", server.url, str(path))
    assert "very" not in str(refused.value)
