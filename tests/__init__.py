"""The tests; their folders mirror the product.

``core``, ``flow``, ``edges``, ``cli``, ``settings``, ``topology``, ``metrics``, ``grafana``, ``deploy`` and
``demo`` each test the folder of that name, ``core`` without any input or output and ``flow`` in virtual time.
``system`` runs the real daemon on a real broker. ``bench`` tests the proofs, and ``interop`` checks signatures
with foreign verifiers. Code that several tests share, or that proofs and tests share, is in ``support``.
"""
