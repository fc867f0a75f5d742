"""What pages share."""

import os

# As in dpmc_core.__main__, before NumPy is loaded: on a busy machine further BLAS threads make a
# fit many times slower.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
