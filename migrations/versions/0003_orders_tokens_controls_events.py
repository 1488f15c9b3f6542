"""Tables of orders, scalers, tokens, controls, watches and events; figures and shadow decisions in decisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for figure in ("rate", "response", "bound", "price"):
        op.add_column("decisions", sa.Column(figure, sa.Double(), nullable=True))
    op.add_column("decisions", sa.Column("shadow", sa.JSON(none_as_null=True), nullable=True))
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.Column("used", sa.Double(), nullable=True),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["parent_id"], ["tokens.id"], name="fk_tokens_parent_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
    op.create_index("ix_tokens_parent_id", "tokens", ["parent_id"])
    op.create_table(
        "controls",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_controls"),
    )
    op.create_index("ix_controls_application", "controls", ["application"])
    op.create_table(
        "orders",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("issued", sa.Double(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("application", name="pk_orders"),
    )
    op.create_table(
        "scalers",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.Double(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("acknowledged", sa.Double(), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("application", "operator", "instance", name="pk_scalers"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "watches",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("heartbeat", sa.Double(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("application", name="pk_watches"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_application_time", "events", ["application", "time"])
