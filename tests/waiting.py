"""How long tests wait for other threads and processes."""

import time

# This ends a test that hangs, and says nothing of speed: on a busy machine, what takes 5 seconds
# alone has taken 200. The limit of pytest itself is longer, so that a failure tells its reason.
PATIENCE_SECONDS = 600


def wait_for(condition, act=lambda: time.sleep(0.02), explain=lambda: "it did not happen"):
    """Wait until the condition holds, and call `act` after each check that it does not."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, explain()
        act()
