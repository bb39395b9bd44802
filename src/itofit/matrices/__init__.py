"""Symmetric matrices: covariances, their entries, roots and links."""
