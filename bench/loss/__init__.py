"""The proofs that earlier causes of lost or late deliveries are gone, one module each."""
