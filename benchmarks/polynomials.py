"""Polynomial regression with terms chosen by BIC: the simple model that learned drifts are compared with."""

from itertools import combinations_with_replacement

import numpy as np


class PolynomialDrift:
    """Drift of polynomials, each output with terms of its own, chosen stepwise in both directions by BIC.

    Parameters
    ----------
    x : array (n, m)
    rates : array (n, d)
        Increments / h.
    degree : int
        Largest of a term.
    """

    def __init__(self, x, rates, degree=3):
        self.shift, self.scale = x.mean(axis=0), x.std(axis=0)
        self.powers = [
            list(term) for size in range(degree + 1) for term in combinations_with_replacement(range(x.shape[1]), size)
        ]
        basis = self._basis(x)
        gram = basis.T @ basis
        self.terms, self.coefficients = [], np.zeros((len(self.powers), rates.shape[1]))
        for output, y in enumerate(rates.T):
            chosen = _chosen_terms(gram, basis.T @ y, y @ y, len(y))
            self.terms.append(chosen)
            self.coefficients[chosen, output] = np.linalg.solve(gram[np.ix_(chosen, chosen)], (basis.T @ y)[chosen])

    def __call__(self, x):
        """The drift at places x (n, m)."""
        return self._basis(x) @ self.coefficients

    def _basis(self, x):
        u = (x - self.shift) / self.scale
        return np.stack([u[:, term].prod(axis=1) for term in self.powers], axis=1)


def _chosen_terms(gram, right, square, n):
    """Places of the terms, from the constant alone: add or remove the one that lowers BIC most until none does."""

    def bic(terms):
        part = right[terms]
        left_over = square - part @ np.linalg.solve(gram[np.ix_(terms, terms)], part)
        return n * np.log(left_over / n) + len(terms) * np.log(n)

    terms, best = [0], bic([0])
    while True:
        others = [sorted(set(terms) ^ {term}) for term in range(1, len(right))]
        scores = [bic(candidate) for candidate in others]
        if not min(scores) < best:
            return terms
        terms, best = others[int(np.argmin(scores))], min(scores)
