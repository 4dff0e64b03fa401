"""Protocols carried over InfiniBand: one module per protocol, declared as a plugin would declare it."""
