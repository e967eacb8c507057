"""The model: configuration, block, decoders, coupling."""
