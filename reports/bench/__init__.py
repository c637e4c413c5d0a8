"""The page of a benchmark of full models, of the JSON that `rheo bench` writes."""
