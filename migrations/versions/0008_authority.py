"""Tokens: the applications that they are for (null: all, as all were). Decisions: the instance that wrote each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("applications", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("decisions", sa.Column("instance", sa.Text(), nullable=True))
