"""The image and docker-compose.yml, tried without a container engine."""
