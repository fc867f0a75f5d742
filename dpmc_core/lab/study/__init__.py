"""A study on one data set: the answer, which method, the ledger, a release and its check."""
