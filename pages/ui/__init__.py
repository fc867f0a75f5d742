"""What pages share. First of all, before NumPy is loaded: one BLAS thread, as `dpmc` has it."""

import dpmc_lab.__main__  # noqa: F401
