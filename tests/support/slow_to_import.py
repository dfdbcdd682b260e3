"""A module that takes its time to be imported."""

import time

time.sleep(0.03)
WHOLE = True
