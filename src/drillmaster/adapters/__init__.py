"""Where other people's tools are met: each adapter is imported by name, and only where it is asked for."""
