"""The daemon as a black box, its command line, and an application that publishes."""
