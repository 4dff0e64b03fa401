"""How is a capture exported? As columns, findings, frames with comments, or a capture without secrets."""
