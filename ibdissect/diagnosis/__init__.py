"""What became of each connection, and where did its time go?"""
