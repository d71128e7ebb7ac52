"""The pure core: standard library only; time, randomness and environment are arguments."""
