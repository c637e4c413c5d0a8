"""Losslessness of the sampler on real models, judged by a forward that shares nothing with its caches."""
