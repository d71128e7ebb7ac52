"""What the API server says -> our errors."""

from __future__ import annotations

import json

import pytest

from gpu_training.cluster.faults import document_of, error_from, error_of
from gpu_training.core.errors import ClusterRejected, ClusterUnavailable

pytestmark = pytest.mark.unit

WHERE = "connection 'kubernetes_gpu' (https://10.0.0.1)"


@pytest.mark.parametrize("status", [401, 408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_unavailable(status: int) -> None:
    error = error_of(status, b"", doing="list Jobs", where=WHERE)

    assert isinstance(error, ClusterUnavailable)
    assert error.status == status
    assert WHERE in str(error)


@pytest.mark.parametrize("status", [400, 403, 404, 405, 409, 410, 413, 415, 422])
def test_what_stays_is_rejected(status: int) -> None:
    error = error_of(status, b"", doing="list Jobs", where=WHERE)

    assert isinstance(error, ClusterRejected)
    assert error.status == status


def test_the_servers_own_words_are_kept() -> None:
    said = 'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"'
    error = error_of(403, json.dumps({"kind": "Status", "message": said}).encode(), doing="create a Job", where=WHERE)

    assert said in str(error)
    assert "Role" in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b"<html>no</html>", b"\xff\xfe", b'{"message": 5}', b"x" * 10_000]
)
def test_any_body_makes_a_short_message(body: bytes) -> None:
    error = error_of(500, body, doing="list Jobs", where=WHERE)

    assert len(str(error)) < 1_000
    assert str(error).startswith("could not list Jobs with ")


@pytest.mark.parametrize("exc", [TimeoutError(), ConnectionRefusedError(111, "refused"), OSError("broke")])
def test_a_broken_way_says_what_to_check(exc: Exception) -> None:
    error = error_from(exc, doing="list Jobs", where=WHERE)

    assert error.status is None
    assert "check that" in str(error)


@pytest.mark.parametrize(
    "body", [b"<html>Sign in</html>", b"[]", b"null", b'{"items": [', b"\xff", b"[" * 100_000], ids=range(6)
)
def test_a_success_without_a_document_may_pass_too(body: bytes) -> None:
    """A proxy answered in the API server's place."""
    with pytest.raises(ClusterUnavailable, match="no JSON object"):
        document_of(body, doing="list Jobs", where=WHERE)


def test_a_success_without_a_body_is_an_empty_document() -> None:
    assert document_of(b"", doing="list Jobs", where=WHERE) == {}
    assert document_of(b'{"kind": "JobList"}', doing="list Jobs", where=WHERE) == {"kind": "JobList"}
