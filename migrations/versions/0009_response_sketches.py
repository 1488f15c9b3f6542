"""Samples: sketch of response times; not known of older ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("samples", sa.Column("responses", sa.JSON(), nullable=True))
