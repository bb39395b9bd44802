"""What was observed: transitions in memory or in blocks, from arrays, tracks, tables and files."""
