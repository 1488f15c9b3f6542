"""How an objective goes from a proposal to full use, one stage of evidence after the other, and back."""
