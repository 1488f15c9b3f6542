"""Whatever stands in the columns, there is a surrogate that can be kept and shown, or one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from scaler.model.wire import read_json
from tests.surrogate.worlds import WINDOW
from tuner.pipeline.sources.sample_schema import MEASURED
from tuner.scenario.document import format_application
from tuner.store.json_fields import write_json
from tuner.surrogate.checks import CHECKS
from tuner.surrogate.fit import check_drift_since, fit
from tuner.surrogate.fitted_application import build_application
from tuner.surrogate.surrogate import Surrogate, from_document, to_document
from tuner.views.surrogate_report import draw_text, write_surrogate


def make_up(rng: np.random.Generator) -> list[Sample]:
    """Columns that have nothing to do with each other; some missing, some zero, some absurd."""
    windows, size = int(rng.choice([1, 2, 3, 5, 15, 40])), float(10.0 ** rng.uniform(-3.0, 3.0))
    types = ([None], [None, "a"], ["a", "b"], [None, "a", "b"])[int(rng.integers(4))]
    left_out = {column for column in MEASURED if rng.random() < 0.35}
    zeros = float(rng.choice([0.0, 0.1, 0.5]))
    samples = []
    for w in range(windows):
        for name in types if rng.random() > 0.1 else []:
            values = {
                column: float(rng.choice([0.0, 1e-12, 1e12]))
                if rng.random() < zeros + 0.02
                else float(rng.gamma(2.0)) * size
                for column in MEASURED
                if column not in left_out and rng.random() > 0.05
            }
            covered = float(rng.choice([0.0, 0.3, 1.0, 1.0, 1.0]))
            start = WINDOW * w
            samples.append(
                Sample("x", "op", start, start + WINDOW, "table", node_type=name, completeness=covered, **values)
            )
    return samples


def fit_or_refuse(samples: list[Sample]) -> Surrogate | str:
    try:
        return check_drift_since(fit(samples, "x"), samples)
    except BadInput as refused:
        return str(refused)


@pytest.mark.parametrize("block", range(6))
def test_garbage_gives_a_surrogate_or_a_sentence(block: int) -> None:
    fitted = 0
    for seed in range(30 * block, 30 * block + 30):
        surrogate = fit_or_refuse(make_up(np.random.default_rng(seed)))
        if isinstance(surrogate, str):
            assert surrogate.startswith(("operator 'op': no sample tells a service time", "there is no sample of"))
            continue
        fitted += 1
        assert [check.name for check in surrogate.checks] == list(CHECKS)
        text = write_json(to_document(surrogate))
        assert write_json(to_document(from_document(read_json(text)))) == text
        assert write_surrogate(surrogate).endswith("</html>\n")
        assert draw_text(surrogate.operators[0].points, ascii_only=True).isascii()
        assert format_application(build_application(surrogate)).startswith('name = "x"')
    assert fitted > 5
