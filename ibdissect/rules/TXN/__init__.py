"""Rules about transactions: requests, answers and RMPP transfers."""
