"""Requests in; who may do what, and refusals, out: tokens, page sessions, limits, and the envelope around every answer.

A route says what it needs: `Depends(require("read"))` for programs with a bearer token, `Depends(require_page("read"))`
for people with a session. `wrap` goes around the whole application.
"""
