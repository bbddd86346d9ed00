"""What shows that a gate can say no: one module a gate, each with `cases()`. Loaded by `gate selftest` alone."""
