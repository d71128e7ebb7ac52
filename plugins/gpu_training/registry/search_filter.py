"""MLflow's filter language: values that come from outside can not change what is searched for."""

from __future__ import annotations

from gpu_training.core.errors import RegistryError


def tag_is(name: str, value: str) -> str:
    """Give the filter for a tag's value."""
    return f"tags.`{name}` = {quoted(value)}"


def quoted(value: str) -> str:
    """Give a value in quotes.

    :raises RegistryError: it holds both kinds of quotes; the language has no escape for the one that a text is in.
    """
    quote = '"' if "'" in value else "'"
    if quote in value:
        raise RegistryError(f"{value!r}: a text with both kinds of quotes can not be searched for", transient=False)
    return f"{quote}{value}{quote}"
