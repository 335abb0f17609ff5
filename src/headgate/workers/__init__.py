"""Several processes that are one gateway: who listens where, who replaces whom, and pages for all of them.

Is given settings and the signals of an operator by the command line. A supervisor holds the listening sockets
and starts the workers, which serve; it tells them what to do over a channel, and asks them what they know.
A connection that the kernel has taken in belongs to a socket that the supervisor keeps open, so no worker's
end, and no upgrade, refuses or resets it.
"""
