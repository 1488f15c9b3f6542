"""Reinforcement learning and dynamic programming, as in the papers."""
