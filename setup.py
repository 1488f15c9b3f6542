"""Package the Alembic history, which is kept in migrations/ at the root, as tuner.store.migrations."""

from setuptools import find_namespace_packages, setup

HISTORY = "tuner.store.migrations"

setup(
    packages=[*find_namespace_packages(include=["scaler*", "sim*", "tuner*"]), HISTORY, f"{HISTORY}.versions"],
    package_dir={HISTORY: "migrations"},
)
