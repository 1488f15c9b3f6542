"""Tables of applications, samples, source marks and surrogates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "applications",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_applications"),
        sa.UniqueConstraint("name", name="uq_applications_name"),
    )
    op.create_table(
        "application_versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("application_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["application_id"],
            ["applications.id"],
            name="fk_application_versions_application_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_application_versions"),
        sa.UniqueConstraint("application_id", "number", name="uq_application_versions_application_id_number"),
    )
    op.create_table(
        "samples",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("node_type", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("arrived", sa.Double(), nullable=True),
        sa.Column("tuples_in", sa.Double(), nullable=True),
        sa.Column("tuples_out", sa.Double(), nullable=True),
        sa.Column("backlog", sa.Double(), nullable=True),
        sa.Column("service_n", sa.Double(), nullable=True),
        sa.Column("service_sum", sa.Double(), nullable=True),
        sa.Column("service_squares", sa.Double(), nullable=True),
        sa.Column("task_n", sa.Double(), nullable=True),
        sa.Column("task_records", sa.Double(), nullable=True),
        sa.Column("task_time", sa.Double(), nullable=True),
        sa.Column("task_inverse", sa.Double(), nullable=True),
        sa.Column("task_rates", sa.Double(), nullable=True),
        sa.Column("task_squares", sa.Double(), nullable=True),
        sa.Column("busy", sa.Double(), nullable=True),
        sa.Column("replicas", sa.Double(), nullable=True),
        sa.Column("batches", sa.Double(), nullable=True),
        sa.Column("batch_time", sa.Double(), nullable=True),
        sa.Column("batch_interval", sa.Double(), nullable=True),
        sa.Column("response_n", sa.Double(), nullable=True),
        sa.Column("response_sum", sa.Double(), nullable=True),
        sa.Column("completeness", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("application", "operator", "start", "end", "node_type", name="pk_samples"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_samples_end", "samples", ["end"])
    op.create_table(
        "source_marks",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("read_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("application", "source", name="pk_source_marks"),
    )
    op.create_table(
        "surrogates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("health", sa.Text(), nullable=False),
        sa.Column("error", sa.Double(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_surrogates"),
        sa.UniqueConstraint("application", "number", name="uq_surrogates_application_number"),
    )
