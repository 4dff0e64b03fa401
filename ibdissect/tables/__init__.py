"""Captures as tables: columns of fields, connections, messages, records, requests; as Arrow and in SQL."""
