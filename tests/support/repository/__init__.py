"""Files of the repository that tests read, such as the Compose file and the alerts."""
