"""What the papers prove about errors, as functions, with our corrections."""
