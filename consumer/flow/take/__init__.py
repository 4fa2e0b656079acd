"""Take messages in a fair order and start a job for each.

Messages of the windows come in; started jobs go out, and rerouted events return to the broker.
What a job does belongs to ``flow.deliver``.
"""
