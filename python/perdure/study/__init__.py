"""Studies: what to run, running it, and whether it agrees with what others found."""
