"""What the house checks about itself: `python -m tools.imports`, `tools.reference`, `tools.pages`."""
