"""What waits in the triggerer."""
