"""Hypothesis strategies for toys and configurations, and the properties every sampler must have, importable."""
