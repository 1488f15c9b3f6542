"""Log a person in by token, with a session in a cookie, and out again."""

from __future__ import annotations

from fastapi import Request, Response

from tuner.service.access.session import clear_cookie, log_in, log_out, read_form, read_next, set_cookie
from tuner.service.page.render import go_to, render

WRONG = "This token is not known, or does not hold any more. `tuner token make` makes one."


def show_login(request: Request) -> Response:
    return render("login.html", {"next": read_next(request.query_params.get("next")), "wrong": "", "session": None})


async def take_login(request: Request) -> Response:
    form = await read_form(request)
    onward = read_next(form.get("next"))
    secret = await log_in(request, form.get("token", "").strip())
    if secret is None:
        return render("login.html", {"next": onward, "wrong": WRONG, "session": None}, 401)
    answer = go_to(onward)
    set_cookie(request, answer, secret)
    return answer


async def take_logout(request: Request) -> Response:
    await log_out(request)
    answer = go_to("/login")
    clear_cookie(request, answer)
    return answer
