"""Virtual hosts, queues and messages on a real broker, which the tests and the proofs share."""
