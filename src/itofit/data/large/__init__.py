"""Data that are not in memory at once: blocks, parts, and who works on them."""
