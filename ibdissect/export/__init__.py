"""How does what is in a capture get out: columns, findings, frames with comments, captures fit for sharing?"""
