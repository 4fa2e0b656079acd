"""The proofs of sending: speed, leaks, escapes from the guard, deadlines, and tests for every fault."""
