"""The proofs of policies, clocks and breakers: what a sick endpoint costs, and whom."""
