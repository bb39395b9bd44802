"""Equations for elsewhere: tables, functions for JAX, and NumPy modules that need nothing else."""
