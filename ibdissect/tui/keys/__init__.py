"""What the keys of the main screen do. Each module lists its commands; help, key bar and palette are made of these lists."""
