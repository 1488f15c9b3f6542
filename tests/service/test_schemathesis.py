"""No request that schemathesis makes of our OpenAPI document is answered by 500 or above."""

from __future__ import annotations

from itertools import product

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.service.conftest import BOUNDS, WEIGHTS

EXAMPLES = 6  # of each operation, that fit its description, and as many that do not


@pytest.mark.slow
def test_no_request_that_fits_the_description_makes_the_service_fail(shop: httpx.Client) -> None:
    made = shop.post("/v1/applications/shop/objectives", json={"weights": WEIGHTS, "bounds": BOUNDS})
    assert made.status_code == 201
    schema = schemathesis.openapi.from_dict(shop.get("/v1/openapi.json").json())
    for result, mode in product(schema.get_all_operations(), schemathesis.GenerationMode):
        operation = result.ok()

        @seed(0)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode))
        def ask(case: schemathesis.Case) -> None:
            send(case, shop)

        ask()


def send(case: schemathesis.Case, client: httpx.Client) -> None:
    """Also with the names and numbers of what is there, which chance would not find."""
    for there in ({}, {"app": "shop", "version": 1, "kind": "pin", "word": "pause"}):
        case.path_parameters = {key: there.get(key, value) for key, value in (case.path_parameters or {}).items()}
        if "wait" in (case.query or {}):
            case.query["wait"] = 0.01
        sent = case.as_transport_kwargs(base_url=str(client.base_url))
        named = {key.lower(): value for key, value in sent["headers"].items()}
        sent["headers"] = {**named, "authorization": client.headers["authorization"]}
        renamed = {"content" if key == "data" else key: value for key, value in sent.items() if key != "cookies"}
        answer = client.request(**renamed)
        assert answer.status_code < 500, (sent["method"], sent["url"], answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]
