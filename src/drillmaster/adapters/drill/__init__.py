"""Tools that carry drills past one machine.

Locust brings membership, heartbeats and the channel; each worker starts our own engine, which alone talks to the endpoint.

1. Locust lives in processes of its own, since it rewrites the standard library's sockets and threads when it is imported: the
   master's is started by the interview and told by lines of JSON over a socket; the worker's is the verb `locust-worker`.
2. A worker decides for itself whether it may and can do what it is asked: permission on the addresses that it looked up itself,
   keys from its own environment. No key goes over the channel, which is neither encrypted nor authenticated.
3. Records come back whole: pieces in order, each with its digest, and at the end the digest of the whole file. A piece that is
   missing or altered makes its worker a lost one.
4. A worker that is lost ends the run, which is then partial. One that comes when the run has begun has no share and is sent away.
"""
