"""Decentralised against centralised control of a pipeline (Russo Russo, 2018): Table 1, Figures 2a and 2b."""
