"""Show the tenants and subscriptions that have series of their own.

The state of tenants and endpoints enters; series with their names leave. The choice of the names is made in
:mod:`consumer.core`, and series without names are written by the modules beside this package.
"""
