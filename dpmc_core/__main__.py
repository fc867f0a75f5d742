"""`python -m dpmc_core` is the same as `dpmc`."""

from dpmc_lab.__main__ import entry

if __name__ == "__main__":
    entry()
