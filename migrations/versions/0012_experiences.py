"""Histories: what a policy learned from an application's monitored arrivals under each objective that was pushed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiences",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("slot_s", sa.Double(), nullable=False),
        sa.Column("since", sa.Double()),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("application", "version", name="pk_experiences"),
    )
