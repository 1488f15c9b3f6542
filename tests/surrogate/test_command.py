"""`tuner surrogate`: fitted from the database, kept, shown in every form, refused in a sentence."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import Result

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from sim.application import read_application
from tests.commands import run_or_raise
from tests.surrogate.worlds import WINDOW, batch_stream, queue_stream
from tuner.store.applications import add_application, list_surrogates, load_surrogate
from tuner.store.connection import open_store
from tuner.store.samples import save_samples
from tuner.surrogate.checks import CHECKS
from tuner.surrogate.fit import fit
from tuner.surrogate.surrogate import from_document, from_record, to_document, to_record


def put(path: Path, samples: list[Sample]) -> str:
    with closing(open_store(path)) as store, store.begin() as session:
        save_samples(session, samples)
    return str(path)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return put(tmp_path_factory.mktemp("store") / "tuner.db", queue_stream("gamma", 100))


def run(*words: str) -> Result:
    return run_or_raise("surrogate", *words)


class Tags(HTMLParser):
    """Which tags are left open, and which classes there are."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.classes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.classes += [value or "" for name, value in attrs if name == "class"]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.classes += [value or "" for name, value in attrs if name == "class"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_fit_keeps_what_it_shows(database: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("fit", "shop", "--store", database, "--html", str(page))
    assert result.exit_code == 0
    for said in ("fit for tuning", "queue: constant", "pass  windows", "pass  drift", "held out", "20"):
        assert said in result.output
    with closing(open_store(database)) as store, store.read() as session:
        kept = load_surrogate(session, "shop")
    assert (kept.health, kept.windows, kept.start, kept.end) == ("pass", 100, 0.0, 100 * WINDOW)
    assert kept.error is not None
    assert kept.error < 0.05
    assert from_record(kept) == fit(queue_stream("gamma", 100), "shop")
    tags = Tags()
    tags.feed(page.read_text())
    assert tags.open == []
    assert tags.classes.count("canvas") == 2
    assert tags.classes.count("verdict pass") == len(CHECKS)
    held_out = re.findall(r'"colour":"c1","look":"dot"[^\[]*\[([^\]]*)\]', page.read_text())
    assert sum(value != "null" for values in held_out for value in values.split(",")) >= 2 * 25
    assert page.read_text().count("@media (prefers-color-scheme: dark)") == 1


def test_json_is_one_document_of_numbers(database: str) -> None:
    run("fit", "shop", "--store", database)
    document = json.loads(run("show", "shop", "--store", database, "--json").output)
    operator = document["operators"][0]
    assert document["number"] >= 1
    assert operator["mean"]["low"] < operator["mean"]["value"] < operator["mean"]["high"]
    assert operator["response"]["accuracy"]["error"]["value"] < 0.05
    assert {check["verdict"] for check in document["checks"]} == {"pass"}


def test_the_described_quantile_chooses_the_model(tmp_path: Path) -> None:
    database = put(tmp_path / "tuner.db", batch_stream(windows=60, trigger=0.3))

    def fit_by(*options: str) -> tuple[str, float | None]:
        result = run("fit", "shop", "--store", database, *options)
        with closing(open_store(database)) as store, store.read() as session:
            response = from_record(load_surrogate(session, "shop")).operators[0].response
        assert response is not None
        assert ("(by p95)" in result.output) == (response.chosen_by == 0.95)
        return response.model, response.chosen_by

    assert fit_by() == ("batches", None)
    assert fit_by("--quantile", "0.95") == ("batches", 0.95)
    with closing(open_store(database)) as store, store.begin() as session:
        add_application(session, "shop", {"qos": {"quantile": 0.95}}, 1.0)
    assert fit_by() == ("batches", 0.95)
    assert fit_by("--quantile", "0.9") == ("batches", 0.9)


def test_what_came_since_is_looked_at_and_told_by_the_exit_code(tmp_path: Path) -> None:
    database = put(tmp_path / "tuner.db", queue_stream("gamma", 100))
    assert run("fit", "shop", "--store", database).exit_code == 0
    assert run("show", "shop", "--store", database).exit_code == 0
    late = queue_stream("gamma", 40, seed=5, start=100 * WINDOW, mean=0.025)
    put(tmp_path / "tuner.db", late)
    shown = run("show", "shop", "--store", database)
    assert shown.exit_code == 1
    assert "not fit for tuning" in shown.output
    assert "fit again on what was seen since" in shown.output
    again = run("fit", "shop", "--store", database, "--since", "1970-01-01T01:40")
    assert "38 of 40 windows" in again.output
    with closing(open_store(database)) as store, store.read() as session:
        assert [kept.number for kept in list_surrogates(session, "shop")] == [2, 1]
    assert "Surrogate 1 of shop" in run("show", "shop", "--number", "1", "--store", database).output


def test_the_application_is_written_as_it_was_described(tmp_path: Path) -> None:
    samples = queue_stream("gamma", 60)
    other = [
        replace(s, operator="store", arrived=0.7 * (put_out.tuples_out or 0.0))
        for s, put_out in zip(queue_stream("gamma", 60, seed=2, mean=0.01, selectivity=0.0), samples, strict=True)
    ]
    database = put(tmp_path / "tuner.db", [*samples, *other])
    run("fit", "shop", "--store", database)
    toml = tmp_path / "shop.toml"
    with pytest.raises(BadInput, match="tuner app add shop"):
        run("show", "shop", "--store", database, "--toml", str(toml))
    document = {
        "operator": [
            {"name": "count", "service_time": 1.0, "scv": 1.0, "k_max": 4},
            {"name": "store", "service_time": 1.0, "scv": 1.0},
        ],
        "edge": [{"from": "count", "to": "store"}],
    }
    with closing(open_store(database)) as store, store.begin() as session:
        add_application(session, "shop", document, 0.0)
    run("show", "shop", "--store", database, "--toml", str(toml))
    application = read_application(toml)
    assert [(o.name, o.k_max) for o in application.operators] == [("count", 4), ("store", 10)]
    assert application.operators[0].moments.mean == pytest.approx(0.02, rel=0.02)
    assert application.operators[0].selectivity == pytest.approx(2.0)
    assert application.edges[0].selectivity == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "other"), "there is no sample of application 'other'; read some with: tuner ingest"),
        (("show", "other"), "application 'other' has no surrogate; fit one with: tuner surrogate fit other"),
        (("fit", "shop", "--infrastructure", "Z"), "there is no infrastructure 'Z'"),
        (("fit", "shop", "--html", "/nowhere/page.html"), "there is no folder /nowhere"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(words: tuple[str, ...], said: str, database: str) -> None:
    with pytest.raises(BadInput, match=said):
        run(*words, "--store", database)


def test_a_share_that_is_none_is_refused(database: str) -> None:
    assert run("fit", "shop", "--holdout", "1.5", "--store", database).exit_code == 2
    with pytest.raises(BadInput, match=r"hold out is 1\.5, and must lie between 0 and 1"):
        fit(queue_stream("gamma", 30), "shop", holdout=1.5)


def test_samples_without_service_times_are_refused() -> None:
    columns = dict.fromkeys(("service_n", "service_sum", "service_squares", "busy"))
    bare = [replace(s, **columns) for s in queue_stream("gamma", 30)]  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="operator 'count': no sample tells a service time"):
        fit(bare, "shop")


def test_fine_samples_are_refused() -> None:
    samples = queue_stream("gamma", 30)
    with pytest.raises(BadInput, match=r"two samples of the window that starts at 0 .* fold the samples first"):
        fit([*samples, samples[0]], "shop")


def test_a_document_is_the_surrogate_and_nothing_else_is() -> None:
    made = fit(queue_stream("gamma", 40), "shop")
    document = json.loads(json.dumps(to_document(made)))
    assert from_document(document) == made
    assert to_record(made, 5.0).health == "warn"
    with pytest.raises(BadInput, match="format 0, and this program reads 1; fit it again"):
        from_document({**document, "format": 0})
    with pytest.raises(BadInput, match=r"is not whole .* fit it again"):
        from_document({key: value for key, value in document.items() if key != "operators"})
