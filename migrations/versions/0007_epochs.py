"""Epochs, of which each restoration begins one, and the moment at which the database last took a write for a check."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "epochs",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("began", sa.Double(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("copied", sa.Double(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("revisions", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_epochs"),
    )
    op.create_table(
        "write_checks",
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("writer", name="pk_write_checks"),
    )
