"""What pods say while they are deleted is told, and never keeps the deletion waiting."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.unit.triggers.one_job import REFERENCE, Log

from gpu_training.triggers.last_words import LastWords, last_words

pytestmark = pytest.mark.unit


@dataclass
class Teller:
    """Takes nothing: whoever is listened to has to come from a follower that was made."""

    def take(self, batch: object) -> None:
        raise AssertionError(batch)


@dataclass
class Follower:
    positions: dict[tuple[str, str], object] = field(default_factory=dict)


@dataclass
class Logs:
    masking: asyncio.Task[None]
    teller: Teller = field(default_factory=Teller)
    follower: Follower = field(default_factory=Follower)


class Silent:
    """A cluster that never answers."""

    async def request(self, *_: object, **__: object) -> object:
        return await asyncio.Event().wait()


class Broken:
    """A cluster that answers with something that is no API server's."""

    async def request(self, *_: object, **__: object) -> object:
        raise ValueError("no JSON")


async def _nothing() -> None:
    return None


def listen(cluster: object, *, masking: str = "done") -> LastWords:
    async def run() -> LastWords:
        task = asyncio.create_task(_nothing() if masking == "done" else asyncio.sleep(60))
        if masking == "cancelled":
            task.cancel()
        if masking != "pending":
            await asyncio.wait({task})
        async with last_words(cast(Any, cluster), REFERENCE, cast(Any, Logs(task)), Log()) as words:
            return words

    return asyncio.run(run())


@pytest.mark.parametrize("cluster", [Silent(), Broken()], ids=["silent", "broken"])
def test_an_api_server_that_does_not_tell_the_pods_keeps_no_job_from_its_deletion(
    cluster: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.triggers.last_words._LISTEN_WITHIN_S", 0.1)
    assert listen(cluster) is not None


@pytest.mark.parametrize("masking", ["pending", "cancelled"])
def test_nothing_is_told_before_it_is_known_what_is_to_be_masked(masking: str) -> None:
    """Neither cluster nor follower is asked for anything: there is nobody who listens."""
    words = listen(Broken(), masking=masking)
    assert asyncio.run(words.listen()) is False
