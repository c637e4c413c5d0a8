"""Samplers of other engines, run as they are shipped, under the subject protocol of `verify.subjects`."""
