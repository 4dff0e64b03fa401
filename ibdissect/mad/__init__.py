"""Management datagrams: requests, their answers, and RMPP transfers."""
