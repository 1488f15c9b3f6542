"""The database: plain values in; the same values back, of whichever process wrote them, out.

`open_store` gives a `Store`; `with store.begin() as session:` is one transaction; the functions of `applications`,
`samples`, `marks`, `surrogates`, `runs`, `trials`, `objectives` and `decisions` work on its session.
"""
