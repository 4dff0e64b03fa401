"""Who talks to whom? Requests, answers, streams of packets, and losses."""
