"""Training: presets, the loop, and run directories that survive interruptions."""
