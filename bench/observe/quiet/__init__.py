"""Ordinary life under a real Prometheus and a real Alertmanager, to count alerts that nobody needs.

Data flow: moments change the :class:`Stage` (workers, endpoints, publishers, broker) -> Prometheus ->
Alertmanager -> :class:`AlertWatch` -> :class:`Diary`, which names the moment of each alert.
"""
