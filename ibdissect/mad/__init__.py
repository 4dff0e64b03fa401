"""Which management datagrams are requests and answers, which answer which, and what do RMPP transfers carry?"""
