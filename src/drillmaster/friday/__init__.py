"""The sections of a Friday drill's plan, one module a section, and what makes sense of them. Pure."""
