"""Share one worker among tenants.

Jobs with their tenant and cost come in; the next job, limits and figures of evenness go out.
Tasks and slots belong to ``flow.take``; the limits of one endpoint belong to ``core.endpoint``.
"""
