"""What the papers prove about errors, as functions, with our corrections."""

DRAWABLE = 10.0  # a line is drawn for a bound below so many times what is measured
