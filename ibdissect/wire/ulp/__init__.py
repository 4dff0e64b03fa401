"""What do the protocols carried over InfiniBand contain? One module per protocol, declared as a plugin would declare it."""
