"""Deep policies: the value function is a small neural network trained from replayed experience; loads torch."""
