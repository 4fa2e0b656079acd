"""The workshop of the tests: fakes, workers, daemons, receivers, and data that several tests share."""
