"""GPU-seconds that a fault wastes, with our operator and with the stock one, side by side in one run."""
