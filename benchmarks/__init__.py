"""Benchmarks, one question a folder; `fkpinn bench NAME` runs them."""
