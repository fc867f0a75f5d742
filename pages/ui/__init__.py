"""Share code between pages, and set one BLAS thread, as `dpmc` does, before NumPy is loaded."""

import dpmc_lab.__main__  # noqa: F401
