"""Send one signed request and return its outcome; one sender on aiohttp, one on httpx2.

Signed requests come in; outcomes go out.
Retries, breakers and slots belong to ``consumer.flow``.
"""
