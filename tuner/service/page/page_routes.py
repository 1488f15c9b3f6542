"""Route browsers' requests to pages. Without a session they lead to the login; an error is a page with one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from scaler.model.decision import KINDS
from scaler.model.errors import BadInput, Retry
from tuner.service.access.session import PageSession, read_form, require_page
from tuner.service.api.problems import find_status
from tuner.service.exchange.order_board import poll
from tuner.service.exchange.services import services_of
from tuner.service.page import actions, login_page
from tuner.service.page.application_page import gather_view, read_before
from tuner.service.page.decision_page import read_filters
from tuner.service.page.explain_page import gather_explanation
from tuner.service.page.links import link_application
from tuner.service.page.objective_page import gather_objective
from tuner.service.page.overview_page import gather_overview
from tuner.service.page.render import STATIC, go_to, read_asset, render
from tuner.service.page.run_page import gather_run, read_order
from tuner.service.page.time_range import read_moment, read_window
from tuner.service.page.trial_page import gather_trial
from tuner.store.faults import NotFound

router = APIRouter(include_in_schema=False)
Reader = Annotated[PageSession, Depends(require_page("read"))]
KEPT_S = 30 * 86_400  # by browsers, of what has its content in its link
LARGEST_ID = 2**31 - 1
Values = Mapping[str, Any]


@router.get("/")
def show_overview(request: Request, session: Reader) -> Response:
    def gather(now: float) -> Values:
        after = read_text(request, "after")
        with services_of(request).store.read() as database:
            return {"all": gather_overview(database, now, after), "after": after}

    return answer(request, session, "overview.html", gather)


@router.get("/applications")
def show_named(request: Request, session: Reader) -> Response:
    """Of an application whose name no path can hold."""
    app = request.query_params.get("app", "")
    return show_application(request, app, session) if app else go_to("/")


@router.get("/applications/{app}")
def show_application(request: Request, app: str, session: Reader) -> Response:
    def gather(now: float) -> Values:
        query = request.query_params
        window, filters = read_window(query, now), read_filters(query, query.getlist("kind"))
        before = read_before(query.get("before", ""))
        check_text(app), check_text(filters.operator)
        with services_of(request).store.read() as database:
            view = gather_view(database, app, now, window, filters, before)
        return {"view": view, "app": app, "kinds": KINDS}

    return answer(request, session, "application.html", gather)


@router.get("/objectives/{version}")
def show_objective(request: Request, version: str, session: Reader) -> Response:
    def gather(now: float) -> Values:
        app = read_text(request, "app")
        with services_of(request).store.read() as database:
            return {"view": gather_objective(database, app, read_id(version, "objective")), "app": app}

    return answer(request, session, "objective.html", gather)


@router.get("/runs/{run}")
def show_run(request: Request, run: str, session: Reader) -> Response:
    def gather(now: float) -> Values:
        order = read_order(request.query_params)
        with services_of(request).store.read() as database:
            return {"view": gather_run(database, read_id(run, "tuning run"), order)}

    return answer(request, session, "run.html", gather)


@router.get("/trials/{trial}")
def show_trial(request: Request, trial: str, session: Reader) -> Response:
    def gather(now: float) -> Values:
        with services_of(request).store.read() as database:
            return {"view": gather_trial(database, read_id(trial, "trial"))}

    return answer(request, session, "trial.html", gather)


@router.get("/explain")
def show_explanation(request: Request, session: Reader) -> Response:
    def gather(now: float) -> Values:
        app, operator = read_text(request, "app"), read_text(request, "operator")
        at = read_seconds(request.query_params.get("at", ""))
        with services_of(request).store.read() as database:
            return {"view": gather_explanation(database, app, at, operator, now), "app": app}

    return answer(request, session, "explain.html", gather)


def act_on(what: str) -> Callable[..., Any]:
    """A form's route: what it asks for in one transaction, then the page that shows it."""
    scope, act, part = actions.ACTS[what]
    needed = Depends(require_page("read", scope))

    async def take(request: Request, session: PageSession = needed) -> Response:
        form = await read_form(request)

        def work(database: Any) -> None:
            for text in form.values():
                check_text(text)
            act(database, actions.read_app(form), form, session.caller.name, services_of(request).settings.clock())

        try:
            await run_in_threadpool(services_of(request).store.write, work)
        except (BadInput, Retry) as error:
            return refuse(session, error, find_status(error, 400), form.get("app", ""))
        with suppress(Retry):  # who waits for orders is told at once, or finds them in the next look
            await poll(services_of(request).board)
        return go_to(link_application(form["app"], part=part))

    return take


for name in actions.ACTS:
    router.post(f"/act/{name}", name=f"act on {name}")(act_on(name))


@router.get("/login")
def show_login(request: Request) -> Response:
    return login_page.show_login(request)


@router.post("/login")
async def take_login(request: Request) -> Response:
    return await login_page.take_login(request)


@router.post("/logout")
async def take_logout(request: Request, session: Reader) -> Response:
    return await login_page.take_logout(request)


@router.get("/static/{name}")
def send_asset(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, f"there is no file {name[:40]!r} here")
    kept = {"Cache-Control": f"public, max-age={KEPT_S}, immutable"}
    return Response(read_asset(name), 200, kept, STATIC[name])


def answer(request: Request, session: PageSession, template: str, gather: Callable[[float], Values]) -> Response:
    now: float = services_of(request).settings.clock()
    try:
        values = gather(now)
    except (BadInput, Retry) as error:
        return refuse(session, error, find_status(error, 400))
    return render(template, {**values, "session": session, "now": now})


def refuse(session: PageSession, error: Exception, status: int, app: str = "") -> Response:
    """The sentence as a page."""
    values = {"session": session, "says": str(error), "app": app}
    return render("refused.html", values, status)


def read_text(request: Request, name: str) -> str:
    return check_text(request.query_params.get(name, ""))


def check_text(text: str) -> str:
    if "\0" in text:
        raise BadInput("a name holds the character NUL; leave it out")
    return text


def read_id(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and int(text) <= LARGEST_ID):
        raise NotFound(f"there is no {what} {text[:40]!r}")
    return int(text)


def read_seconds(text: str) -> float | None:
    """Seconds since 1970, as links of decisions have it, or a date and time; None where nothing is said."""
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return read_moment(text, "at")
