"""Define the data of each page: one frozen dataclass for each template.

Times are Unix seconds, durations are seconds, sizes are bytes, and ratios are from 0 to 1. A number that is
unknown is None. Every text may be hostile: the templates escape it.
"""
