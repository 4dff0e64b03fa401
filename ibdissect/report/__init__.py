"""Findings as text for people and as the formats other programs read; one module a format, each a function to text."""

from __future__ import annotations

FORMATS = ("text", "json", "jsonl", "sarif", "junit", "github")
