"""The image and docker-compose.yml, as far as they can be tried without a container engine."""
