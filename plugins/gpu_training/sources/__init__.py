"""Where data versions come from, one module a kind of source."""
