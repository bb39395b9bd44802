"""Second-order systems of which positions alone were observed."""
