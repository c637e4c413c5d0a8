"""What a person sees of a run. Everything here reads the run's JSON and nothing else."""
