"""Show every page of the web view with sample data, for designers, tests and screenshots."""
