"""Child processes that the tests and the proofs share: the daemon, PostgreSQL, Prometheus."""
