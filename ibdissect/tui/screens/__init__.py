"""What is opened over the main screen: whole screens, pages and small windows."""
