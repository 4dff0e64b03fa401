"""What do the protocols carried over InfiniBand hold? One module a protocol, declared as a plugin would declare it."""
