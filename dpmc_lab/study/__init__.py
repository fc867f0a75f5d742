"""A study on one data set: the answer, which method, a release and its check."""
