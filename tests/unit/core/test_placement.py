"""Where the pods may run, and where the last attempt goes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.specs import document, spec

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.placement import SpotFallback, Toleration
from gpu_training.core.spec import parse_training_spec

pytestmark = pytest.mark.core


def test_a_fallback_names_nodes_and_what_is_tolerated_there() -> None:
    read = spec(spot_fallback={"node_selector": {"capacity": "on-demand"}, "tolerations": [{"key": "dear"}]})
    assert read.spot_fallback == SpotFallback(
        node_selector={"capacity": "on-demand"},
        tolerations=(Toleration(key="dear", value="", effect="NoSchedule"),),
    )
    assert spec(spot_fallback={}).spot_fallback is None


@pytest.mark.parametrize(
    ("fallback", "changes", "field", "allowed"),
    [
        ({"tolerations": [{"key": "dear"}]}, {}, "node_selector", "labels of the nodes that nobody reclaims"),
        ({"node_selector": {}}, {}, "node_selector", "labels of the nodes that nobody reclaims"),
        ({"node_selector": {"capacity": "on-demand"}}, {"budget": {"attempts": 1}, "backoff_limit": 0}, "node_selector",
         "contradicts budget.attempts 1, of which the last is the first: allow more attempts"),
        ({"node_selector": {"a b": "c"}}, {}, "node_selector.a b", "a label key is expected"),
        ({"node_selector": {"a": "b c"}}, {}, "node_selector.a", "a label value"),
        ({"node_selector": "on-demand"}, {}, "node_selector", "a mapping with text keys"),
        ({"node_selector": {"a": "b"}, "tolerations": [{}]}, {}, "tolerations[0].key", "a taint key"),
        ({"nodeselector": {"a": "b"}}, {}, "nodeselector", "did you mean 'node_selector'?"),
        ({"node_selector": {"a": "b"}, "attempts": 2}, {}, "attempts", "unknown key"),
    ],
)  # fmt: skip
def test_a_fallback_that_leads_nowhere_is_refused(
    fallback: dict[str, Any], changes: dict[str, Any], field: str, allowed: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(document(spot_fallback=fallback, **changes))
    assert caught.value.field == f"training.spot_fallback.{field}"
    assert allowed in caught.value.allowed
