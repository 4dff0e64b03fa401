"""Screens, pages and small windows that open over the main screen."""
