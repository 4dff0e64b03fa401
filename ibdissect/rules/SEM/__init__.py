"""Rules about what subnet management attributes say."""
