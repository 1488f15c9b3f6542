"""Route browsers' requests to pages. Without a session they lead to the login; an error is a page with one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from scaler.model.decision import KINDS
from scaler.model.errors import BadInput, Retry
from tuner.guide.pages import PICTURES, TOPICS, read_picture
from tuner.rollout.steering import TuningRequest
from tuner.service.access.callers import Caller
from tuner.service.access.gate import check_application
from tuner.service.access.page_session import (
    PageSession,
    clear_cookie,
    log_in,
    log_out,
    read_form,
    read_next,
    require_page,
    set_cookie,
)
from tuner.service.api.problems import AGAIN_S, describe_error, find_status
from tuner.service.exchange.order_board import poll
from tuner.service.exchange.services import services_of
from tuner.service.page import actions
from tuner.service.page.address import check_choice, check_text, link_application, read_digits, read_moment, read_window
from tuner.service.page.application_page import TABS, View, gather_application, read_before
from tuner.service.page.candidate import gather_candidate
from tuner.service.page.decision_page import gather_explanation, read_filters
from tuner.service.page.error_pages import render_refusal
from tuner.service.page.guide_page import gather_page
from tuner.service.page.overview_order import gather_overview, read_overview_order
from tuner.service.page.overview_page import describe_retention, list_expiry
from tuner.service.page.render import STATIC, go_to, read_asset, render
from tuner.service.page.rollout_page import gather_objective
from tuner.service.page.run_page import TABS as RUN_TABS
from tuner.service.page.run_page import gather_run, gather_trial, read_order
from tuner.store.connection import Session
from tuner.store.faults import DatabaseFault, NotFound

router = APIRouter(include_in_schema=False)
Reader = Annotated[PageSession, Depends(require_page("read"))]
KEPT_S = 30 * 86_400  # by browsers, of what has its content in its link
LARGEST_ID = 2**31 - 1
WRONG_TOKEN = "This token is not known, or does not hold any more. `tuner token make` makes one."
Gather = Callable[[Request, Session, Caller, float], Mapping[str, Any]]


def show(path: str, template: str) -> Callable[[Gather], Gather]:
    """Route a page: what the function gathers from the database, rendered; an error as a sentence."""

    def register(gather: Gather) -> Gather:
        def make_page(request: Request, session: PageSession) -> Response:
            now: float = services_of(request).settings.clock()
            with services_of(request).store.read() as database:
                values = gather(request, database, session.caller, now)
            return render(template, {**values, "session": session, "now": now})

        async def answer(request: Request, session: Reader) -> Response:
            try:
                return await services_of(request).pages.run(partial(make_page, request, session))
            except (BadInput, Retry) as error:
                return refuse(session, error, find_status(error, 400))

        router.get(path, name=f"{gather.__name__} {path}")(answer)
        return gather

    return register


@show("/", "overview.html")
def show_overview(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    order = read_overview_order(request.query_params)
    return {
        "all": gather_overview(database, now, order, caller.applications),
        "retention": describe_retention(services_of(request).settings.retention),
        "expiring": list_expiry(database, caller, now),
    }


@show("/applications", "application.html")  # whose name no path can hold
@show("/applications/{app}", "application.html")
def show_application(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    query = request.query_params
    app = check_text(request.path_params.get("app") or query.get("app", ""))
    if not app:
        raise HTTPException(303, "name an application", {"Location": "/"})
    tab = check_choice("tab", query.get("tab", ""), TABS)
    window, filters = read_window(query, now), read_filters(query, query.getlist("kind"))
    check_text(filters.operator)
    view = View(app, tab, now, window, filters, read_before(query.get("before", "")))
    return {"view": gather_application(database, view), "app": app, "kinds": KINDS}


@show("/candidate", "candidate.html")
def show_candidate(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    app = read_app(request)
    return {"view": gather_candidate(database, app, now), "app": app}


@show("/objectives/{version}", "objective.html")
def show_objective(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    app = read_app(request)
    return {"view": gather_objective(database, app, read_id(request, "version", "objective")), "app": app}


@show("/runs/{run}", "run.html")
def show_run(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    tab = check_choice("tab", request.query_params.get("tab", ""), RUN_TABS)
    order = read_order(request.query_params)
    app = read_app(request)
    return {"view": gather_run(database, app, read_id(request, "run", "tuning run"), tab, order), "app": app}


@show("/trials/{trial}", "trial.html")
def show_trial(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    app = read_app(request)
    return {"view": gather_trial(database, app, read_id(request, "trial", "trial")), "app": app}


@show("/explain", "explain.html")
def show_explanation(request: Request, database: Session, caller: Caller, now: float) -> Mapping[str, Any]:
    app, operator = read_app(request), read_text(request, "operator")
    at = read_seconds(request.query_params.get("at", ""))
    return {"view": gather_explanation(database, app, at, operator, now), "app": app}


def act_on(what: str) -> Callable[..., Any]:
    """A form's route: what it asks for in one transaction, then the page that shows it."""
    scope, act, tab = actions.ACTS[what]
    needed = Depends(require_page("read", scope))

    async def submit(request: Request, session: PageSession = needed) -> Response:
        form = await read_form(request)

        def work(database: Session) -> None:
            for text in form.values():
                check_text(text)
            app, why = actions.read_app(form), actions.read_why(form)
            check_application(session.caller, app)
            by = TuningRequest(session.caller.name, services_of(request).settings.clock(), why)
            act(database, app, form, by)

        try:
            await run_in_threadpool(services_of(request).store.write, work)
        except (BadInput, Retry) as error:
            return refuse(session, error, find_status(error, 400), form.get("app", ""))
        with suppress(Retry, DatabaseFault):  # who waits for orders is told at once, or finds them in the next look
            await poll(services_of(request).board)
        return go_to(link_application(form["app"], tab=tab))

    return submit


for name in actions.ACTS:
    router.post(f"/act/{name}", name=f"act on {name}")(act_on(name))


@router.get("/login")
def show_login(request: Request) -> Response:
    return show_form(request, read_next(request.query_params.get("next")))


@router.post("/login")
async def submit_login(request: Request) -> Response:
    form = await read_form(request)
    onward = read_next(form.get("next"))
    secret = await log_in(request, form.get("token", "").strip())
    if secret is None:
        return show_form(request, onward, WRONG_TOKEN, 401)
    answer = go_to(onward)
    set_cookie(request, answer, secret)
    return answer


def show_form(request: Request, onward: str, wrong: str = "", status: int = 200) -> Response:
    provider = services_of(request).settings.provider
    name = None if provider is None else provider.settings.name
    return render("login.html", {"next": onward, "wrong": wrong, "provider": name, "session": None}, status)


@router.post("/logout")
async def submit_logout(request: Request, session: Reader) -> Response:
    await log_out(request)
    answer = go_to("/login")
    clear_cookie(request, answer)
    return answer


@router.get("/static/{name}")
def send_asset(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, f"there is no file {name[:40]!r} here")
    kept = {"Cache-Control": f"public, max-age={KEPT_S}, immutable"}
    return Response(read_asset(name), 200, kept, STATIC[name])


@router.get("/guide")
def send_to_guide() -> Response:
    return go_to(f"/guide/{TOPICS[0]}")


@router.get("/guide/{name}")
def show_guide(name: str) -> Response:
    """A page or a picture; without a log-in, for the guide is the program's, the same for everybody."""
    if name in PICTURES:
        return Response(read_picture(name), 200, media_type=PICTURES[name])
    if name not in TOPICS:
        raise HTTPException(404, f"the guide has no page {name[:40]!r}")
    return render("guide.html", {**gather_page(name), "session": None})


def refuse(session: PageSession, error: Exception, status: int, app: str = "") -> Response:
    """The sentence as a page, for a person who has logged in."""
    headers = {"Retry-After": str(AGAIN_S)} if status == 503 else None
    return render_refusal(describe_error(error), status, session, app, headers)


def read_text(request: Request, name: str) -> str:
    return check_text(request.query_params.get(name, ""))


def read_app(request: Request) -> str:
    """The application that a link names in its query; only links that were cut off lack it."""
    app = read_text(request, "app")
    if not app:
        raise BadInput(f"the link names no application; add it, as in {request.url.path}?app=NAME")
    return app


def read_id(request: Request, name: str, what: str) -> int:
    text = request.path_params[name]
    number = read_digits(text, 11)
    if number is None or number > LARGEST_ID:
        raise NotFound(f"there is no {what} {text[:40]!r}")
    return number


def read_seconds(text: str) -> float | None:
    """Seconds since 1970, as links of decisions have it, or a date and time; None for no text."""
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return read_moment(text, "at")
