"""Trials: cost becomes price (per hour); resources, which said the same, go.

The statements are written out because both databases rename and drop columns in place, while Alembic would make the
table anew on SQLite.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_trials_run_id_cost", "trials")
    op.execute("ALTER TABLE trials RENAME COLUMN cost TO price")
    op.execute("ALTER TABLE trials RENAME COLUMN cost_error TO price_error")
    op.execute("ALTER TABLE trials DROP COLUMN resources")
    op.execute("ALTER TABLE trials DROP COLUMN resources_error")
    op.create_index("ix_trials_run_id_price", "trials", ["run_id", "price"])
