"""Tables of any library: their columns, and what each of them is."""
