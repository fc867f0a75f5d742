"""DPMC Lab: what differential privacy costs when a matrix of ratings is completed."""

from pages.ui import shell

shell.run()
