"""Servers that tests and proofs run beside the product: endpoints, name servers, proxies."""
