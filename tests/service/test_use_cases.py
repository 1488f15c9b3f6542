"""The page, the API and the command line run the same use cases: the same events, the same refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from scaler.model.task import Weights
from tests.commands import run
from tests.service.browsed import PERSON, Seen, Site
from tests.service.made_decisions import NOW
from tests.service.showcase import MODELS
from tuner.cli.options import name_user
from tuner.store.audit_log import list_events
from tuner.store.objectives import add_objective
from tuner.store.records import ObjectiveRecord

APP = "payments"
LOCK = {"kind": "direction_lock", "operator": "book"}
Door = Callable[[Site, str, dict[str, str]], tuple[int, str]]


def through_page(site: Site, act: str, fields: dict[str, str]) -> tuple[int, str]:
    answer = site.send(f"/act/{act}", **{"app": APP, **fields})
    return answer.status_code, Seen(answer.text).said if answer.status_code >= 400 else ""


def through_api(site: Site, act: str, fields: dict[str, str]) -> tuple[int, str]:
    app, why = fields.get("app", APP), fields["why"]
    place, control = f"/v1/applications/{app}", f"/controls/{fields.get('kind')}"
    of = {"operator": fields.get("operator", "")}
    sent: dict[str, tuple[str, str, dict[str, Any], dict[str, str]]] = {
        "control": ("PUT", control, {"settings": {"only": fields.get("only")}, "note": why}, of),
        "lift": ("DELETE", control, {}, {**of, "why": why}),
        "push": ("POST", f"/objectives/{fields.get('version')}/push", {"stage": fields.get("stage"), "why": why}, {}),
        "rollback": ("POST", "/rollback", {"why": why}, {}),
        "tune": ("POST", "/tunings", {"why": why}, {}),
        "pause": ("POST", "/tunings/pause", {}, {"why": why}),
        "resume": ("POST", "/tunings/resume", {}, {"why": why}),
    }
    method, path, body, query = sent[act]
    headers = {"Authorization": f"Bearer {site.token}"}
    answer = httpx.request(
        method, site.url + place + path, params=query, headers=headers, **({"json": body} if body else {})
    )
    return answer.status_code, str(answer.json().get("detail", "")) if answer.status_code >= 400 else ""


def through_cli(site: Site, act: str, fields: dict[str, str]) -> tuple[int, str]:
    app, url = fields.get("app", APP), site.store.address.url
    common = ["--why", fields["why"], "--store", url.render_as_string(hide_password=False)]
    words = {
        "push": ["push", app, fields.get("version", ""), "--stage", fields.get("stage", "")],
        "rollback": ["roll-back", app],
    }
    done = run(*words[act], *common)
    return done.exit_code, " ".join(done.stderr.split()) if done.exit_code else ""


def newest_event(site: Site, who: str = PERSON) -> tuple[str, str, str, dict[str, Any]]:
    """Its version apart, for each door has an objective of its own, and who: on the command line, the account."""
    with site.store.read() as session:
        [event] = list_events(session, APP, limit=1)
    assert event.who == who
    told = {key: value for key, value in event.detail.items() if key != "version"}
    return event.what, PERSON, re.sub(r"objective \d+", "objective N", event.message.replace(who, PERSON)), told


def propose(site: Site) -> str:
    with site.store.begin() as session:
        bounds, model = {"validate": 0.03, "book": 0.03}, {"model": MODELS[APP]}
        made = ObjectiveRecord(APP, Weights(0.6, 0.2, 0.2), bounds, NOW, evidence=model)
        return str(add_objective(session, made).version)


def test_push_and_roll_back_give_one_event(changed: Site) -> None:
    pushed, back = [], []
    for door, who in ((through_page, PERSON), (through_api, PERSON), (through_cli, name_user())):
        sent = door(changed, "push", {"version": propose(changed), "stage": "canary", "why": "a try"})
        assert sent[0] in (0, 200, 303), sent
        pushed.append(newest_event(changed, who))
        assert door(changed, "rollback", {"why": "it was late"})[0] in (0, 200, 303)
        back.append(newest_event(changed, who))
    assert pushed == [pushed[0]] * 3
    assert back == [back[0]] * 3
    assert pushed[0][:3] == ("pushed", PERSON, f"{PERSON} pushed objective N to canary, past shadow: a try")
    assert back[0][:3] == ("rolled back", PERSON, f"{PERSON} rolled back objective N from canary: it was late")


@pytest.mark.parametrize(
    ("act", "fields", "says"),
    [
        ("control", {**LOCK, "only": "out"}, "set direction_lock for operator book"),
        ("lift", LOCK, "lifted direction_lock for operator book"),
        ("tune", {}, "asked for a tuning"),
        ("pause", {}, "asked to pause the retuning"),
        ("resume", {}, "asked to go on with the retuning"),
    ],
)  # fmt: skip
def test_control_and_tuning_requests_give_one_event(changed: Site, act: str, fields: dict[str, str], says: str) -> None:
    seen = []
    for door in (through_page, through_api):
        if act == "lift":
            through_api(changed, "control", {**fields, "only": "in", "why": ""})
        sent = door(changed, act, {**fields, "why": "a sale"})
        assert sent[0] in (200, 202, 303), sent
        seen.append(newest_event(changed))
    assert seen[0] == seen[1]
    assert seen[0][1:3] == (PERSON, f"{PERSON} {says}: a sale")


@pytest.mark.parametrize(
    ("act", "fields", "status", "says"),
    [
        ("lift", {"app": "nowhere", "kind": "pin"}, 404, "there is no application 'nowhere'"),
        ("lift", {"kind": "pin"}, 404, "so that there is nothing to lift"),
        ("control", {**LOCK, "app": "nowhere", "only": "in"}, 404, "there is no application 'nowhere'"),
        ("pause", {"app": "nowhere"}, 404, "application 'nowhere' is not watched"),
        ("push", {"version": "99", "stage": "full"}, 404, "has no objective 99"),
        ("push", {"version": "1", "stage": "shadow"}, 409, "comes after shadow; roll it back instead"),
        ("rollback", {"app": "nowhere"}, 404, "there is no application 'nowhere'"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence_at_every_door(
    changed: Site, act: str, fields: dict[str, str], status: int, says: str
) -> None:
    fields = {**fields, "why": "a try"}
    code, sentence = through_api(changed, act, fields)
    assert code == status
    assert says in sentence
    code, page = through_page(changed, act, fields)
    assert code == status
    assert sentence.replace("`", "") in page  # which shows commands as code
    if act in ("push", "rollback"):
        code, printed = through_cli(changed, act, fields)
        assert code == 2
        assert sentence in printed
