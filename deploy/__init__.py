"""What surrounds the daemon in docker-compose.yml: settings of RabbitMQ and Prometheus, and their set-up."""
