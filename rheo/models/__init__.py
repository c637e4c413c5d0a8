"""Real models and prompts: where they come from, and drafts made out of a target."""
