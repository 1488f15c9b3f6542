"""The database: the only room that knows SQLAlchemy.

`open_store` gives a `Store`; `with store.begin() as session:` is one transaction; the functions of `applications`,
`samples`, `marks`, `surrogates`, `runs`, `trials`, `objectives` and `decisions` work on its session.
"""
