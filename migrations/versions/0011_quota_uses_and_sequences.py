"""Quotas: what each manager let through. Decisions: the place of a report among its agent's, of older ones unknown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("decisions", sa.Column("sequence", sa.BigInteger()))
    op.create_table(
        "quota_uses",
        sa.Column("manager", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("used", sa.Double(), nullable=False),
        sa.Column("told", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("manager", "kind", "key", name="pk_quota_uses"),
        sqlite_with_rowid=False,
    )
