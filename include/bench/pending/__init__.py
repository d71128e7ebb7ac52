"""Why a training waits: how soon it is told, and what that costs where many wait in a large cluster."""
