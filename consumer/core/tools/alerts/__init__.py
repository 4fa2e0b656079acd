"""Define the alert rules for Prometheus, and write them for the names of one installation.

Options come in: names of scrape jobs, labels, limits, the address of the runbook. A file of rules goes out.
Reading metrics does not belong here: Prometheus evaluates the rules.
"""
