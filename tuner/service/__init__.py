"""The Application Manager as a service: API, page, access, metrics and the exchange with agents."""
