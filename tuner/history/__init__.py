"""Why a scaler did what it did: what is kept of a slot in; what was seen, weighed, blocked and pursued out."""
