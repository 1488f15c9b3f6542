"""The simulator: node types, traces, application graphs and the compiled replay of real policies over them."""
