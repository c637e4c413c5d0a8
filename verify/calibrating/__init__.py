"""What slots are worth: seen at the parents of drafted trees, and fitted by curves. See docs/calibration.md."""
