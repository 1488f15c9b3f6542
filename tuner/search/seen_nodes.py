"""Node types of an application that was monitored and describes none: those seen, or one that all executors are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.nodes import ONE_TYPE, NodeType
from tuner.store.connection import Session
from tuner.store.samples import count_samples, list_node_types


def add_seen_nodes(session: Session, app: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with [infrastructure], where it states none and something was monitored: speed and price 1."""
    if "infrastructure" in document or "application" not in document or not count_samples(session, app):
        return dict(document)
    seen = [NodeType(name, 1.0, 1.0) for name in list_node_types(session, app)] or [ONE_TYPE]
    return {**document, "infrastructure": {"node": [node.to_json() for node in seen]}}
