"""Multi-level elasticity of applications and nodes (Russo Russo et al., 2018): both tables, Figures 6 and 7."""
