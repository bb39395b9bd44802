"""The paper's algorithms as loops, slow and obvious: what every fast path is compared with.

Nothing here uses the package. Random numbers are drawn in the order in which the package says it draws them.
"""

import cmath
import math

import numpy as np


def feature_matrix(omega, x):
    """S[n, k] = exp(i ω_k · x_n)."""
    S = np.zeros((len(x), len(omega)), dtype=complex)
    for n in range(len(x)):
        for k in range(len(omega)):
            phase = 0.0
            for a in range(x.shape[1]):
                phase += omega[k, a] * x[n, a]
            S[n, k] = cmath.exp(1j * phase)
    return S


def gram(omega, x, y):
    """SᴴS and Sᴴy, entry by entry."""
    S = feature_matrix(omega, x)
    K = len(omega)
    G = np.zeros((K, K), dtype=complex)
    b = np.zeros((K, y.shape[1]), dtype=complex)
    for k in range(K):
        for j in range(K):
            G[k, j] = sum(S[n, k].conjugate() * S[n, j] for n in range(len(x)))
        for p in range(y.shape[1]):
            b[k, p] = sum(S[n, k].conjugate() * y[n, p] for n in range(len(x)))
    return G, b


def ridge(omega, x, y, ridge_parameter):
    """β̂ with (SᴴS + λN I) β̂ = Sᴴy."""
    S = feature_matrix(omega, x)
    return np.linalg.solve(S.conj().T @ S + ridge_parameter * len(x) * np.eye(len(omega)), S.conj().T @ y)


def predict(omega, beta, x):
    """Re(S β̂)."""
    return (feature_matrix(omega, x) @ beta).real


def mean_squared_error(omega, beta, x, y):
    """Mean over points and outputs."""
    return float(np.mean((predict(omega, beta, x) - y) ** 2))


def norm(row):
    """Euclidean norm of a complex vector."""
    return math.sqrt(sum(abs(value) ** 2 for value in row))


def algorithm_1_step(rng, omega, beta, x, y, *, ridge_parameter, delta, gamma, resample, pairing):
    """One iteration: the new frequencies and amplitudes, and which proposals were accepted."""
    omega, beta = omega.copy(), beta.copy()
    K, m = omega.shape
    if resample:
        weights = [norm(beta[k]) for k in range(K)]
        j = []
        for uniform in rng.random(K):
            target, running, index = uniform * sum(weights), 0.0, 0
            for index in range(K):
                running += weights[index]
                if running > target:
                    break
            j.append(index)
        omega = np.array([omega[index] for index in j])
        if pairing == "reindex":
            beta = np.array([beta[index] for index in j])
        elif pairing == "solve":
            beta = ridge(omega, x, y, ridge_parameter)
    normals = rng.standard_normal((K, m))
    proposal = omega.copy()
    for k in range(K):
        for a in range(m):
            proposal[k, a] = omega[k, a] + delta * normals[k, a]
    proposal_beta = ridge(proposal, x, y, ridge_parameter)
    uniforms = rng.random(K)
    accepted = []
    for k in range(K):
        if norm(proposal_beta[k]) / norm(beta[k]) ** gamma > uniforms[k]:
            omega[k] = proposal[k]
            accepted.append(True)
        else:
            accepted.append(False)
    return omega, ridge(omega, x, y, ridge_parameter), accepted


def algorithm_1(rng, train, validation, *, n_features, min_iterations, max_iterations, **parameters):
    """The whole training on (x, y) pairs: the best network, and the validation error after each iteration."""
    x, y = train
    omega = np.zeros((n_features, x.shape[1]))
    beta = ridge(omega, x, y, parameters["ridge_parameter"])
    best, errors, averages = (omega, beta), [mean_squared_error(omega, beta, *validation)], []
    for i in range(1, max_iterations + 1):
        omega, beta, _ = algorithm_1_step(rng, omega, beta, x, y, **parameters)
        error = mean_squared_error(omega, beta, *validation)
        if error < min(errors):
            best = (omega, beta)
        errors.append(error)
        if i >= 5:
            averages.append(sum(errors[-5:]) / 5)
        if i >= min_iterations + 5 and i >= 10 and all(averages[-s] >= averages[-s - 1] for s in range(1, 6)):
            break
    return *best, errors


def algorithm_2(rng, inputs, increments, h, *, full, validation_fraction, **parameters):
    """Drift and entries of Σ, as functions of one point; random numbers as in the package."""
    low, span = inputs.min(axis=0), inputs.max(axis=0) - inputs.min(axis=0)

    def learn(targets, offset, unit):
        split = np.random.default_rng([int(rng.integers(2**63)), 0])
        n_out = round(validation_fraction * len(inputs))
        held_out = sorted(split.choice(len(inputs), n_out, replace=False, shuffle=False))
        kept = [n for n in range(len(inputs)) if n not in held_out]
        u, z = (inputs - low) / span, (targets - offset) / unit
        omega, beta, _ = algorithm_1(rng, (u[kept], z[kept]), (u[held_out], z[held_out]), **parameters)
        return lambda points: offset + unit * predict(omega, beta, (points - low) / span)

    rates = np.array([increments[n] / h[n] for n in range(len(h))])
    drift = learn(rates, rates.mean(axis=0), rates.std(axis=0))
    values = drift(inputs)
    targets = []
    for n in range(len(h)):
        r = increments[n] - h[n] * values[n]
        d = len(r)
        targets.append([r[i] * r[j] / h[n] for i in range(d) for j in range(i + 1) if full or i == j])
    targets = np.array(targets)
    return drift, learn(targets, np.zeros(targets.shape[1]), targets.mean(axis=0))
