"""How fast logs are followed, and in how much memory: beside `kubectl logs -f`, on the same streams."""
