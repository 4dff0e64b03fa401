"""From located headers to readable output: walk, tree, summary and the printed forms."""
