"""Numbers of tuning runs and trials within their application; what policies learned from histories, by objective.

Of each application they are numbered in the order of their ids, and objectives name their trial by its number. A number
is unique; rows of older programs have none until a newer one writes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NUMBERED = """
UPDATE {table} SET application_id = numbered.application_id, ordinal = numbered.place
FROM (
    SELECT {table}.id, application_versions.application_id,
           row_number() OVER (PARTITION BY application_versions.application_id ORDER BY {table}.id) AS place
    FROM {joined} JOIN application_versions ON application_versions.id = tuning_runs.application_version_id
) AS numbered
WHERE numbered.id = {table}.id
"""
COUNTED = """
UPDATE applications SET {counter} = (SELECT max(ordinal) FROM {table} WHERE application_id = applications.id)
"""
RENAMED = """
UPDATE objectives SET provenance = 'trial ' || trials.ordinal || ' of run ' || tuning_runs.ordinal
FROM trials JOIN tuning_runs ON tuning_runs.id = trials.run_id
WHERE trials.id = objectives.trial_id AND objectives.provenance = 'trial ' || trials.id || ' of run ' || tuning_runs.id
"""


def upgrade() -> None:
    joined = {"tuning_runs": "tuning_runs", "trials": "trials JOIN tuning_runs ON tuning_runs.id = trials.run_id"}
    counters = {"tuning_runs": "last_run", "trials": "last_trial"}
    for table, counter in counters.items():
        op.add_column(table, sa.Column("application_id", sa.Integer()))
        op.add_column(table, sa.Column("ordinal", sa.Integer()))
        op.add_column("applications", sa.Column(counter, sa.Integer()))
        op.execute(NUMBERED.format(table=table, joined=joined[table]))
        op.execute(COUNTED.format(table=table, counter=counter))
        op.create_index(f"ix_{table}_application_id_ordinal", table, ["application_id", "ordinal"], unique=True)
    op.execute(RENAMED)
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
