"""Memories themselves: simulated probes beside measurements of real memory, and classification."""
