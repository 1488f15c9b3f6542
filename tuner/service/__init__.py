"""The Application Manager as a service: requests of scalers and people in; answers, orders and records out."""
