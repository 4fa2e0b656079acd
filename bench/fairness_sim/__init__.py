"""How waits grow past one machine, simulated: ``python -m bench.fairness_sim [--output docs/fairness.svg]``.

A thousand tenants, twenty workers, no broker and no network: lanes and spill queues are lists, endpoints are
waits. The product's own code decides: scheduler, caps, noise rule (``consumer/core``). The same load is
run through one shared queue, first come, first served, for comparison. It is drawn as SVG and printed as a
table.
"""
