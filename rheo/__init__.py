"""RheoSampling: a lossless sampler for tree speculative decoding (the optimised torch implementation)."""

from rheo.config import Config, ConfigError

__all__ = ["Config", "ConfigError"]
