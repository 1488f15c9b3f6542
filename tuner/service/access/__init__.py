"""Access to the service: tokens, page sessions, rate limits, and the envelope around every answer.

A route declares what it needs: `Depends(require("read"))` for programs with a bearer token,
`Depends(require_page("read"))` for people with a session. `wrap` goes around the whole application.
"""
