"""What rules of several families have in common; no rule of its own."""
