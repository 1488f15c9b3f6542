"""Decisions as data: reason code, proposed change by node type, objections.

Decisions of older agents keep their sentence and have neither code nor objections. Their change is filled in from the
action, which those agents wrote as "+1 small", so that charts show it as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("decisions", sa.Column("code", sa.Text(), nullable=True))
    op.add_column("decisions", sa.Column("proposed", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("decisions", sa.Column("objections", sa.JSON(none_as_null=True), nullable=True))
    build = "json_build_object" if op.get_bind().dialect.name == "postgresql" else "json_object"
    change = f"{build}(substr(action, 4), CAST(substr(action, 1, 2) AS INTEGER))"
    op.execute(f"UPDATE decisions SET proposed = {change} WHERE action LIKE '+1 _%' OR action LIKE '-1 _%'")
