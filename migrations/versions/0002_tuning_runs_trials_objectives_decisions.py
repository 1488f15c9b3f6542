"""Tables of tuning runs, trials, objectives and decisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tuning_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("application_version_id", sa.Integer(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("heartbeat", sa.Double(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["application_version_id"],
            ["application_versions.id"],
            name="fk_tuning_runs_application_version_id",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tuning_runs"),
    )
    op.create_index("ix_tuning_runs_application_version_id", "tuning_runs", ["application_version_id"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("violations", sa.Double(), nullable=True),
        sa.Column("reconfigurations", sa.Double(), nullable=True),
        sa.Column("resources", sa.Double(), nullable=True),
        sa.Column("cost_error", sa.Double(), nullable=True),
        sa.Column("violations_error", sa.Double(), nullable=True),
        sa.Column("reconfigurations_error", sa.Double(), nullable=True),
        sa.Column("resources_error", sa.Double(), nullable=True),
        sa.Column("feasible", sa.Boolean(), nullable=True),
        sa.Column("slack", sa.Double(), nullable=True),
        sa.Column("slots", sa.BigInteger(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("surrogate_id", sa.Integer(), nullable=True),
        sa.Column("trace", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["tuning_runs.id"],
            name="fk_trials_run_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["surrogate_id"],
            ["surrogates.id"],
            name="fk_trials_surrogate_id",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint("run_id", "number", name="uq_trials_run_id_number"),
    )
    op.create_index("ix_trials_ended", "trials", ["ended"])
    op.create_index("ix_trials_run_id_cost", "trials", ["run_id", "cost"])
    op.create_index("ix_trials_surrogate_id", "trials", ["surrogate_id"])
    op.create_table(
        "objectives",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("performance", sa.Double(), nullable=False),
        sa.Column("reconfiguration", sa.Double(), nullable=False),
        sa.Column("resources", sa.Double(), nullable=False),
        sa.Column("bounds", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("surrogate_id", sa.Integer(), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["surrogate_id"],
            ["surrogates.id"],
            name="fk_objectives_surrogate_id",
        ),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name="fk_objectives_trial_id",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_objectives"),
        sa.UniqueConstraint("application", "version", name="uq_objectives_application_version"),
    )
    op.create_index("ix_objectives_surrogate_id", "objectives", ["surrogate_id"])
    op.create_index("ix_objectives_trial_id", "objectives", ["trial_id"])
    op.create_table(
        "decisions",
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("objective_version", sa.Integer(), nullable=True),
        sa.Column("seen", sa.JSON(), nullable=False),
        sa.Column("alternatives", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("application", "operator", "time", name="pk_decisions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_decisions_application_time", "decisions", ["application", "time"])
    op.create_index("ix_decisions_time", "decisions", ["time"])
