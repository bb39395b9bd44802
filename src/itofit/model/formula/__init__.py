"""From learned functions to a formula: sparse sums of readable terms, with errors, that are an equation again."""
