"""Set up RabbitMQ and Prometheus around the daemon in docker-compose.yml."""
