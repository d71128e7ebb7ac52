"""Documents in which anything may have become anything, for tests of totality."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        ["True", "False", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "{{ x }}", "9" * 40, "\0", "\ud800"]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, entry in below for path in _paths(entry, (*here, key)))]


@st.composite
def damaged(draw: st.DrawFn, *documents: Any) -> Any:
    """Give one of the documents in which up to three values are replaced, or one taken out."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        path = draw(st.sampled_from(_paths(document)))
        if not path:
            return draw(anything)
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        if isinstance(holder, dict) and draw(st.integers(min_value=0, max_value=4)) == 0:
            del holder[path[-1]]
        else:
            holder[path[-1]] = draw(anything)
    return document
