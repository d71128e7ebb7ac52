"""Whether a model is still there: an answer that says so, and one that says nothing of the kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import RegistryError
from gpu_training.registry.model_lookup import FoundModel, ModelLookup
from gpu_training.registry.tracking_server import TrackingServer

pytestmark = pytest.mark.unit

MODEL_URI = "models:/m-404"


class Mlflow(FakeMlflow):
    """Refuses to tell of models when it is told to."""

    refusal: tuple[int, dict[str, Any]] | None = None

    def answer(self, question: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refusal is not None and question.startswith("logged-models/"):
            return self.refusal
        return super().answer(question, body)


@pytest.fixture
def mlflow() -> Iterator[Mlflow]:
    fake = Mlflow()
    yield fake
    fake.stop()


def find(mlflow: Mlflow, model_uri: str | None = MODEL_URI) -> FoundModel | None:
    lookup = ModelLookup(TrackingServer(conn_id="mlflow_tracking", uri=mlflow.uri))
    return lookup.find(model_uri=model_uri, registered_model="m", fingerprint="sha256:0", generation=1)


def test_a_model_that_is_there_is_found(mlflow: Mlflow) -> None:
    mlflow.models.add("m-404")
    assert find(mlflow) == FoundModel(model_uri=MODEL_URI, version=None)


@pytest.mark.parametrize("model_uri", [MODEL_URI, None])
def test_a_model_that_is_not_there_is_gone(mlflow: Mlflow, model_uri: str | None) -> None:
    assert find(mlflow, model_uri) is None


def test_an_error_whose_words_hold_the_digits_of_not_found_does_not_say_that_the_model_is_gone(mlflow: Mlflow) -> None:
    mlflow.models.add("m-404")
    mlflow.refusal = (400, {"error_code": "BAD_REQUEST", "message": "model m-404 can not be looked up just now"})

    with pytest.raises(RegistryError, match="just now"):
        find(mlflow)
