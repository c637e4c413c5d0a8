"""The harness: toys, exact laws, classes, transport, and the checks that a sampler is lossless."""
