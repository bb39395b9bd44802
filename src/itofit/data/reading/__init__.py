"""Files, many files and Dask frames to transitions."""
