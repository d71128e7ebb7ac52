from __future__ import annotations

from hypothesis import settings

# Few examples and no time limit an example: the tier is for every save, and machines are shared. The seed is fixed, so
# that a run says something about the change and not about luck.
settings.register_profile("core", max_examples=40, deadline=None, derandomize=True)
settings.load_profile("core")
