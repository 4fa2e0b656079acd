"""The watch of the quorum, in virtual time."""
