"""Run records: reading and checking them, statistics, and comparing two sets of them."""
