"""The proofs of the HTTP API and of the pages for operators."""
