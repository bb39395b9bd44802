"""The default: frequencies by evidence, amplitudes by likelihood, nothing to tune."""
