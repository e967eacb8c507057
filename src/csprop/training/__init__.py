"""How a model learns: recipes, the loop, and runs that survive."""
