"""The dashboard, generated; alert rules and provisioning beside it. No part of the product imports it."""
