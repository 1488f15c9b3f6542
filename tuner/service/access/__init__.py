"""Access to the service: tokens, page sessions, rate limits, and the envelope around every answer."""
