"""The tests; their folders mirror the product.

``core``, ``flow``, ``edges``, ``cli``, ``settings``, ``topology``, ``metrics``, ``grafana``, ``deploy`` and
``demo`` each test the folder of that name, ``core`` without any input or output and ``flow`` in virtual time.
``system`` runs the real daemon on a real broker. ``bench`` tests the proofs; ``interop`` checks signatures
with foreign verifiers. Code that tests share, or that they share with the proofs, is in ``support``.
"""
