"""Adapters for workers: guards at work in the libraries that a worker calls models, partners and tools with."""
