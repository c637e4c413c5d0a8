"""A benchmark of full models: what is run, in which order, and what is made of it."""
