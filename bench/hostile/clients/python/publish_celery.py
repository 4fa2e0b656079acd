"""Publish events from a Celery application, one of them compressed, and one as a task. Arguments: the URL."""

import sys

from celery import Celery
from kombu import Exchange

app = Celery(broker=sys.argv[1])
app.conf.broker_transport_options = {"confirm_publish": True}
events = Exchange("leveret.events", type="topic", no_declare=True)
with app.producer_pool.acquire(block=True) as producer:
    for form, compression in (("text", None), ("gzip", "gzip")):
        producer.publish(
            {"client": "celery", "form": form},
            exchange=events,
            routing_key="order.created",
            serializer="json",
            compression=compression,
            headers={"tenant": "acme", "region": "eu"},
            message_id=f"celery_{form}",
        )
    app.send_task(
        "order.created",
        args=["celery", "task"],
        headers={"tenant": "acme", "region": "eu"},
        exchange=events,
        routing_key="order.created",
        message_id="celery_task",
        producer=producer,
    )
