"""From located headers to what a person sees: walk, tree, summary and the printed forms."""
