"""Other tools beside ours, in an environment of their own."""
