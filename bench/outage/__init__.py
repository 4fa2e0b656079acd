"""The proofs of policies, clocks and breakers: the cost of a sick endpoint, and who bears it."""
