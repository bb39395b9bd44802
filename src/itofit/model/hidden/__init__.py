"""States that are seen through noise, or in part: filter and smoother along tracks."""
