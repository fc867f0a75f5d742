"""Study one data set: the answer to an inquiry, the recommended method, a release and its check."""
