"""The pages on the real product: daemon, broker, `leveret serve` and Chromium."""
