"""`python -m dpmc_core.data` writes every file of sample_data/ again, byte for byte."""

import sys

from dpmc_core.data import synthetic

if __name__ == "__main__":
    for written in synthetic.write(synthetic.FOLDER):
        sys.stdout.write(f"{written}  {written.stat().st_size:,} bytes\n")
