"""Events: place in the audit log's chain and hashes, of older rows once sealed. Decisions: as before a correction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (sa.Column("number", sa.Integer()), sa.Column("previous", sa.Text()), sa.Column("hash", sa.Text())):
        op.add_column("events", column)
    op.create_index("ix_events_number", "events", ["number"], unique=True)
    op.add_column("decisions", sa.Column("corrections", sa.Integer()))
    op.create_table(
        "superseded_decisions",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("superseded", sa.Double(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("application", "operator", "time", "number", name="pk_superseded_decisions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_superseded_decisions_application_time", "superseded_decisions", ["application", "time"])
