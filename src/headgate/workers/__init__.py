"""Runs several processes as one gateway: listening sockets, replacement of workers, upgrades, and shared
pages.

Input: settings and an operator's signals, from the command line. A supervisor holds the listening sockets and
starts the workers, which serve requests; it sends them orders and queries over a channel. A connection that
the kernel has accepted belongs to a socket that the supervisor keeps open, so neither the end of a worker nor
an upgrade refuses or resets it.
"""
