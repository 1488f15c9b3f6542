"""The database: the only room that knows SQLAlchemy.

`open_store` gives a `Store`; `with store.begin() as session:` is one transaction; the functions of `applications`,
`samples`, `runs`, `trials`, `objectives`, `decisions` and `orders` work on its session.
"""
