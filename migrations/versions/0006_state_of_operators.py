"""Samples: size of the state, its partitions, and what its commits and loads took; not known of older ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
COLUMNS = ("state_rows", "state_bytes", "state_partitions", "commit_time", "store_loads", "store_load_time")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("samples", sa.Column(name, sa.Double(), nullable=True))
