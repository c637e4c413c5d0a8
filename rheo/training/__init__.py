"""Training of an EAGLE-3 head: text from the target itself, the loss, the loop, the record."""
