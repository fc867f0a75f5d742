"""Rating data: samples, public sets and files, read, prepared and generated."""
